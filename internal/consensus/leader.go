package consensus

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

// leaders has the raft leader that the engine reports (raftio.IRaftEventListener).
type leaders struct {
	observer Observer
	began    func(*leaderView) // called with each view; must be quick
	view     atomic.Pointer[leaderView]
}

// leader is a raft leader; replica 0: none is known.
type leader struct{ replica, term uint64 }

type leaderView struct {
	leader
	since   time.Time
	changed chan struct{} // closed when there is another view
	settled chan struct{} // closed when no answer by an earlier raft leader will come: see settle
}

func newLeaders(observer Observer, began func(*leaderView)) *leaders {
	l := &leaders{observer: observer, began: began}
	l.view.Store(newView(leader{}))
	return l
}

func newView(of leader) *leaderView {
	return &leaderView{leader: of, since: time.Now(), changed: make(chan struct{}), settled: make(chan struct{})}
}

// LeaderUpdated is called by the engine, from one goroutine.
func (l *leaders) LeaderUpdated(info raftio.LeaderInfo) {
	next := newView(leader{info.LeaderID, info.Term})
	close(l.view.Swap(next).changed)
	l.began(next)
	l.observer.LeaderChanged()
}

// now is the known raft leader, and a channel that is closed when it changes.
func (l *leaders) now() (leader, <-chan struct{}) {
	view := l.view.Load()
	return view.leader, view.changed
}

// RaftLeader is the raft leader that this replica knows: a hint for routing, never a proof. It may
// be wrong for a while, on a cut-off standby forever.
func (g *Group) RaftLeader() (node string, term uint64, ok bool) {
	now, _ := g.leaders.now()
	if now.replica == 0 || g.Failure() != nil {
		return "", now.term, false
	}
	if now.replica == g.cfg.Replica {
		return g.cfg.Node, now.term, true
	}
	node, ok = g.nodes.Node(now.replica)
	return node, now.term, ok
}

// IsRaftLeader reports whether this replica believes to be the raft leader: also a hint.
func (g *Group) IsRaftLeader() bool {
	now, _ := g.leaders.now()
	return now.replica == g.cfg.Replica && g.Failure() == nil
}

// Heard returns when this replica has heard the others in the present term, by replica. On the raft
// leader that is the last answer of each voter or standby, to a heartbeat or to entries. On the
// others it is the last heartbeat, entries or answer to a read of the raft leader. Replicas not heard in
// this term are missing. Heard is quick and does no I/O.
//
// An answer proves that its replica lives and is reachable in both directions, in this term. A vote
// request, a proposal or gossip proves half of that and does not count. An answer proves neither
// how long it was on its way, nor that the disk works: a replica whose fsync hangs stops answering
// with its next write, which a group without writes may never have. The raft leader's messages
// prove only that it can send.
//
// A raft leader that was cut off keeps its last answers: check their age. Where the engine stands still, as
// on a disk that hangs, the present term is a later one than it knows.
func (g *Group) Heard() map[uint64]wire.Heard {
	now, _ := g.leaders.now()
	heard, _ := g.nodes.Heard(now.term)
	return heard
}

// Later is the raft leader of a later term than that of the raft leader that the engine names, and when it was
// last heard; "" where none was. An engine that stands still names the one of before for as long as that lasts.
func (g *Group) Later() (node string, term uint64, at time.Time) {
	now, _ := g.leaders.now()
	heard, term := g.nodes.Heard(now.term)
	if now.replica == 0 || term == now.term {
		return "", term, at
	}
	for replica, one := range heard {
		if one.Leads && replica != g.cfg.Replica {
			node, _ = g.nodes.Node(replica)
			return node, term, one.At
		}
	}
	return "", term, at
}

// LastHeard is when any message of a replica last arrived, zero if none did: in any term, and
// whatever it proves.
func (g *Group) LastHeard(replica uint64) time.Time { return g.nodes.LastHeard(replica) }

// Unreached is why the last message to a replica could not be sent, nil if it could.
func (g *Group) Unreached(replica uint64) error { return g.carrier.Unreached(replica) }

// Transfer transfers raft leadership to another voter and returns when this replica has heard of
// it. It asks again until ctx or one attempt ends: the raft leader gives a transfer up after an
// election timeout, during which it takes no commands, and a voter that is behind does not take
// over.
//
// Errors: ErrNotProposed (no such voter), ErrUnknown, ErrClosed, ErrRemoved, a *FailedError.
func (g *Group) Transfer(ctx context.Context, node string) error {
	members := g.Members()
	replica, _ := members.Replica(node)
	if members.Voters[replica] == "" {
		return fmt.Errorf("%w: %w: node %q is no voter", ErrNotProposed, ErrInvalid, node)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.attempt())
	defer cancel()
	for {
		done, err := g.transfer(ctx, replica)
		if done || err != nil {
			return err
		}
	}
}

// Nominate ends the term of this raft leader where no voter has its whole log: another voter campaigns, and
// those vote for it that have no more of the log than it has. Transfer would wait for entries that the
// network loses. What this raft leader has not committed may be lost, as when it dies. It returns after an
// election timeout at the latest, and the successor may not be known by then.
//
// Errors: ErrNotProposed (no such voter, or this is not the raft leader), and those of the network.
func (g *Group) Nominate(ctx context.Context, node string) error {
	members := g.Members()
	replica, _ := members.Replica(node)
	leader, _ := g.leaders.now()
	if members.Voters[replica] == "" || leader.replica != g.cfg.Replica || replica == g.cfg.Replica {
		return fmt.Errorf("%w: %w: nominating node %q", ErrNotProposed, ErrInvalid, node)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Election)
	defer cancel()
	return g.carrier.Nominate(ctx, replica, leader.term)
}

// transfer asks once, and waits until it is done or the raft leader must have given up.
func (g *Group) transfer(ctx context.Context, replica uint64) (done bool, err error) {
	leader, changed := g.leaders.now()
	if leader.replica == replica {
		return true, nil
	}
	err = g.call(func(host *dragonboat.NodeHost) error { return host.RequestLeaderTransfer(engine.Shard, replica) })
	if err != nil {
		return false, g.definite(err)
	}
	patience := time.After(g.cfg.Election + 2*g.cfg.Tick)
	for leader.replica != replica {
		select {
		case <-changed:
		case <-patience:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("%w: transfer: %w", ErrUnknown, ctx.Err())
		case <-g.failed:
			return false, g.Failure()
		}
		leader, changed = g.leaders.now()
	}
	return true, nil
}

// handOver transfers raft leadership to another voter before Close: otherwise the group would wait
// an election timeout. A raft leader without a quorum has none to transfer. Voters that were not
// heard for an election timeout are not asked, since the engine takes no proposal while it waits for
// one, and those that leave the group are asked last.
//
// The replica then stays for two heartbeats, half a second at most, until the others know the new raft
// leader, and passes their messages on.
func (g *Group) handOver() {
	if !g.IsRaftLeader() || len(g.Members().Voters) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(g.cfg.Election, closeWithin/4))
	defer cancel()
	if g.Barrier(ctx) != nil {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), min(4*g.cfg.Election, closeWithin/2))
	defer cancel()
	for ctx.Err() == nil && g.IsRaftLeader() && len(g.Members().Voters) > 1 {
		next := g.successors(g.cfg.Election)
		if len(next) == 0 {
			break
		}
		slices.SortStableFunc(next, stayFirst)
		for _, one := range next {
			if _, err := g.transfer(ctx, one.replica); err != nil {
				cancel()
			}
			if !g.IsRaftLeader() {
				break
			}
		}
	}
	select {
	case <-time.After(min(2*g.cfg.Heartbeat, closeWithin/10)):
	case <-g.failed:
	}
}

// chosen succeeds the raft leader of a term, which has transferred the leadership to this replica. The
// engine ignores its TimeoutNow if it has not applied all committed entries, as under load, and the
// raft leader, which takes no commands meanwhile, says it once. So it is repeated for half of the
// time after which the raft leader gives up.
func (g *Group) chosen(term uint64) {
	if !g.succeeding.CompareAndSwap(false, true) {
		return
	}
	running := g.carrier.Run(func() {
		defer g.succeeding.Store(false)
		g.insist(g.cfg.Election/2, func(of leader) bool {
			return of.term == term && of.replica != 0 && of.replica != g.cfg.Replica && g.campaign(of)
		})
	})
	if !running {
		g.succeeding.Store(false)
	}
}
