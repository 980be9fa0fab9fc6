package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/health"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

// illPeriod is the time in which the log has one illness and its end, and a raft leader steps down
// once.
const illPeriod = 10 * time.Second

// nominateAfter is for how many times the patience of a node a raft leader commits nothing before a voter
// without its whole log is to lead.
const nominateAfter = 3

// illness watches on each node whether the node is ill, which internal/health decides. A node that
// nobody asks anything proposes and reads nothing for that.
type illness struct {
	loop.Loop
	n        *Node
	monitor  *health.Monitor
	turnover health.Turnover
	state    atomic.Pointer[state]
	asked    atomic.Bool // somebody wanted to know since the last poll
	reading  atomic.Bool // a read of the node's own is under way
	since    time.Time   // when the node fell ill; zero: it is well
	lines    sparse.Lines
	told     bool          // the log has this illness
	applied  uint64        // by the replica, at the last poll
	moved    lease.Instant // when that last changed
	yielded  time.Time     // when this raft leader last stepped down because it committed nothing
}

// state is what keeps the node from serving, "" for nothing, and whether it is ill.
type state struct {
	why string
	ill bool
}

func newIllness(n *Node) *illness {
	i := &illness{n: n, monitor: health.New(n.patience()), lines: sparse.Lines{Most: 1, Period: illPeriod}}
	i.state.Store(&state{})
	i.Loop = loop.New(i.poll)
	return i
}

// patience is for how long something may get no answer before the node is ill.
func (n *Node) patience() time.Duration { return max(unheardMin, 2*n.cfg.Election) }

// isIll reports whether the node was ill when it was last judged.
func (n *Node) isIll() bool { return n.illness.state.Load().ill }

// show adds to a status whether the node is ill, and why it does not serve. A node that was given no
// answer lately reads once then, apart from the caller.
func (i *illness) show(st *seam.Status) {
	i.asked.Store(true)
	now := i.state.Load()
	st.Ill, st.Serves = now.ill, st.Serves && now.why == ""
	_, closing := i.n.Failure()
	switch {
	case st.Serves || closing:
	case now.why != "":
		st.Waits = now.why
	case st.RaftLeader == "" && len(st.Voters) > 0 && !i.n.asClient.hangs.Load():
		st.Waits = "this node hears no raft leader"
	default:
		st.Waits = i.n.Missing()
	}
}

// poll judges the node, and tells of a change.
func (i *illness) poll(context.Context) (pause time.Duration) {
	group, _ := i.n.Proposer.Current()
	if _, closing := i.n.Failure(); closing || i.n.leaving() {
		i.state.Store(&state{})
		return i.monitor.Pause()
	}
	now := i.n.clock.Now()
	signs := health.Signs{Leader: 1}
	if group != nil {
		signs = i.signs(group, now)
	}
	ails, ill := i.monitor.Poll(now, signs)
	i.tell(ails.String(), ill)
	if group != nil {
		i.read(group, signs, ill)
		if ill && ails.Cause == health.Stalled && signs.Leads && signs.Leader != 0 {
			i.yield(group, ails.For)
		}
	}
	return i.monitor.Pause()
}

// signs are those of the replica. A replica that begins carries out the log before it answers: until
// the group has accepted this process, what it carries out counts as an answer.
func (i *illness) signs(group *consensus.Group, now lease.Instant) health.Signs {
	signs := group.Signs()
	_, term, led := i.n.raftLeader(group)
	if led {
		signs.Leader = term
	}
	if led && i.turnover.Note(now, term) {
		i.n.log.Warn("the raft leader changes often: processors are starved, disks slow or the network bad",
			"changes", health.TurnoverMany, "within", health.TurnoverWithin.String(), "term", term)
	}
	var applied uint64
	group.Read(func(m *fsm.Machine) { applied = m.Applied() })
	if applied != i.applied {
		i.applied, i.moved = applied, now
	}
	if !i.n.accepted() {
		signs.Unanswered = min(signs.Unanswered, now.Sub(i.moved))
	}
	return signs
}

// tell reports a change: to the Listener, and to the log once in a period. An illness that begins too soon
// after another is in the log when the period is over, if it lasts.
func (i *illness) tell(words string, ill bool) {
	i.state.Store(&state{words, ill})
	now := time.Now()
	begins, ends := ill && i.since.IsZero(), !ill && !i.since.IsZero()
	if begins {
		i.since = now
		i.n.cfg.Listener.Ill(true, words)
	}
	if ill && !i.told {
		if _, i.told = i.lines.Take(now); i.told {
			i.n.log.Error("this node is ill: its calls get no answer, and its leases end unless it recovers", "why", words)
		}
	}
	if ends && i.told {
		i.n.log.Warn("this node is well again", "after", now.Sub(i.since).Round(time.Millisecond).String())
	}
	if ends {
		i.since, i.told = time.Time{}, false
		i.n.cfg.Listener.Ill(false, "")
	}
}

// read reads once from the group if the node is to know whether it is answered, and was given no
// answer lately.
func (i *illness) read(group *consensus.Group, signs health.Signs, ill bool) {
	lately := i.n.patience() / 2
	wanted := i.asked.Swap(false) && group.SinceAnswer() > lately
	if !wanted && !ill && signs.Unanswered <= lately || !i.reading.CompareAndSwap(false, true) {
		return
	}
	i.n.Go(func(ctx context.Context) {
		defer i.reading.Store(false)
		ctx, cancel := context.WithTimeout(ctx, i.n.patience())
		defer cancel()
		_, _ = i.n.Proposer.Barrier(ctx)
	})
}

// yield hands the raft leadership to a voter that may commit what this one has not for so long. Where the
// network loses what this one sends on all ways, no voter has its whole log, and the one with the most of it
// is to lead. What this one has not committed may be lost then, so that takes longer: a starved machine may
// stall, too.
func (i *illness) yield(group *consensus.Group, stalled time.Duration) {
	to, all := group.Successor(i.n.patience())
	if to == "" || time.Since(i.yielded) < illPeriod || !all && stalled < nominateAfter*i.n.patience() {
		return
	}
	i.yielded = time.Now()
	i.n.log.Warn("this raft leader commits nothing: it steps down", "successor", i.n.described(to))
	handOver := group.Nominate
	if all {
		handOver = group.Transfer
	}
	i.n.Go(func(ctx context.Context) {
		if err := handOver(ctx, to); err != nil {
			i.n.log.Warn("handing over the raft leadership failed", "successor", to, "error", err)
		}
	})
}
