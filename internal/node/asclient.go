package node

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	wordsMax   = 4                      // words of the raft leader that wait
	boundPause = 100 * time.Millisecond // between two looks of a client at the longest TTL of its group
)

// asClient keeps the node a client of its group while it has no replica there: a raft leader has said
// that the group has as many as it shall have. The node asks for one all the time. When the raft
// leader has added it, the node starts it, and goes over to it when it has caught up. Sessions,
// waiting calls and watches live on in both directions, since the node's id is the same.
type asClient struct {
	n      *Node
	roamer *client.Roamer
	words  chan forming.Message // of raft leaders: Welcome and Client
	hangs  atomic.Bool          // the roamer runs, or is about to
	fitness

	// Of the goroutine of runMembership.
	cancel context.CancelFunc
	done   chan struct{}
}

func newAsClient(n *Node) *asClient {
	a := &asClient{n: n, roamer: client.NewRoamer(n.closing), words: make(chan forming.Message, wordsMax)}
	a.lines = sparse.Lines{Most: 1, Period: unfitLine}
	n.Proposer.Lend(a.roamer.Group())
	a.roamer.Group().Follow(0, n.Proposer)
	return a
}

// able reports whether the node can be a client: it can prove its id.
func (a *asClient) able() bool { return a.n.dir.Key() != nil }

// waits reports whether the replica of the present life does not start before a raft leader has said
// that the group has added it.
func (a *asClient) waits() bool {
	id := a.n.dir.Identity()
	return id.Asks && !id.Started && a.able()
}

// serves reports whether another node's replica serves this node.
func (a *asClient) serves() bool { return a.hangs.Load() && a.roamer.Group().Reached() }

// configure is called when the port and gossip are open.
func (a *asClient) configure() {
	n := a.n
	a.roamer.Configure(client.Roaming{
		Cluster: n.cfg.Cluster, Key: n.dir.Key(), Process: n.self.Process(), Zone: n.cfg.Zone, Logger: n.log, Go: n.Go,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return n.endpoint.Dial(ctx, addr, transport.KindClient)
		},
		Find: func(context.Context) ([]string, error) { return n.replicasHere(), nil },
		Idle: n.cfg.Listener.Empty, Changed: n.Proposer.Wake,
	})
}

// replicasHere are the addresses of the other nodes that have a replica of this node's group, by what
// gossip says of them.
func (n *Node) replicasHere() (addresses []string) {
	group := n.ClusterID()
	for _, m := range n.gossip.Members() {
		if !m.Local && m.Here() && m.Phase.Runs() && m.ClusterID == group {
			addresses = append(addresses, m.Addr)
		}
	}
	return addresses
}

// byAnother has another node's replica carry out a call, and reports whether that is done. It is not where
// this node has come to a replica of its own meanwhile: the other one serves it no more, and the call would wait
// for it for as long as its context lasts.
func (n *Node) byAnother(ctx context.Context, call func(context.Context) error) (done bool, err error) {
	within, cancel := context.WithCancel(ctx)
	var looks sync.WaitGroup
	defer looks.Wait()
	defer cancel()
	looks.Go(func() {
		for {
			group, changed := n.Proposer.Current()
			if group != nil {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-within.Done():
				return
			}
		}
	})
	err = call(within)
	return err == nil || within.Err() == nil || ctx.Err() != nil, err
}

// clientsHere are the nodes that gossip sees and that are clients of this node's group until they are
// given a replica.
func (n *Node) clientsHere() (list []membership.Member) {
	group := n.ClusterID()
	for _, m := range n.gossip.Members() {
		if !m.Local && m.Here() && m.Client && m.ClusterID == group && m.Phase == autopilot.PhaseJoining {
			list = append(list, m)
		}
	}
	return list
}

// near is this node's replica when it has applied all that was committed before the call, nil where another
// node's replica serves this one. A client that is between two waits for either.
func (n *Node) near(ctx context.Context) (*consensus.Group, error) {
	for attempt := 1; ; attempt++ {
		if n.asClient.serves() {
			return nil, nil
		}
		group, err := n.Proposer.Barrier(ctx)
		if !errors.Is(err, seam.ErrNoGroup) { // else the other one has become the way meanwhile
			return group, err
		}
		if err := n.Proposer.Pause(ctx, attempt, nil); err != nil {
			return nil, err
		}
	}
}

// ordered is near for an operator's order. Where another node's replica serves this one, far has that one
// carry the order out: then there is no group, and the error is that of the order.
func (n *Node) ordered(ctx context.Context, far func(context.Context) error) (*consensus.Group, error) {
	for {
		if err := n.Joined(ctx); err != nil {
			return nil, err
		}
		group, err := n.near(ctx)
		if err != nil || group != nil {
			return group, err
		}
		if done, err := n.byAnother(ctx, far); done {
			return nil, err
		}
	}
}

// hear takes a word of a raft leader about this node's replica. It is repeated until gossip shows that
// it has arrived.
func (a *asClient) hear(m forming.Message) {
	select {
	case a.words <- m:
	default:
	}
}

// stay returns when the replica of this life runs: at once, or when the group has added it. Until then
// the node is a client as soon as the raft leader says that it may. A node whose replica was removed asks for
// the next one at once. The raft leader gives none to a node that does not know the level of the group, which
// gossip may tell late, or which may rise meanwhile: then the error says so.
func (a *asClient) stay(ctx context.Context) error {
	n := a.n
	if n.replica.Load() != nil {
		return nil
	}
	pause := announcePause // founder.ask has announced it, or it starts, as hundreds may at once
	if n.founder.out.Load() != 0 {
		pause = 0
	}
	n.founder.announcer.begin(n.ClusterID(), pause)
	told := time.NewTicker(waitTold)
	defer told.Stop()
	ticker := time.NewTicker(announcePause)
	defer ticker.Stop()
	for {
		select {
		case <-told.C:
			if !a.hangs.Load() { // else quorum says that no replica serves it
				n.log.Warn("this node has no replica in its group yet", "waits", n.Missing())
			}
		case <-ticker.C:
			if err := n.older(n.ClusterID()); err != nil {
				return err
			}
			a.retry(ctx)
			if !a.hangs.Load() {
				n.founder.announcer.poll()
			}
		case m := <-a.words:
			switch {
			case m.Replica != n.founder.replica(): // of a former life
			case m.Kind == forming.Welcome:
				if runs, err := a.start(ctx); runs || err != nil {
					return err
				}
			case m.Kind == forming.Client:
				a.begin(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// heed takes the words that have come for a node whose replica runs already.
func (a *asClient) heed(ctx context.Context) {
	for {
		select {
		case m := <-a.words:
			if m.Kind == forming.Client && m.Replica == a.n.founder.replica() {
				a.begin(ctx)
			}
		default:
			return
		}
	}
}

// begin makes the node a client, unless it is.
func (a *asClient) begin(ctx context.Context) {
	n := a.n
	group, err := fsm.ParseNode(n.ClusterID())
	if err != nil || a.cancel != nil {
		return
	}
	n.log.Info("the group has all replicas that it shall have: this node is a client until it is given one")
	a.roamer.Resume(group, n.Proposer.Told())
	within, cancel := context.WithCancel(n.ctx)
	a.cancel, a.done = cancel, make(chan struct{})
	a.hangs.Store(true)
	done := a.done
	if !n.Go(func(context.Context) { defer close(done); a.roamer.Run(within) }) {
		close(done)
		return
	}
	n.founder.tell(ctx, n.meta(autopilot.PhaseJoining))
	n.Go(func(context.Context) { a.watchDisk(within) })
	n.Go(func(context.Context) {
		if err := a.greet(within); err != nil && within.Err() == nil {
			n.fail(err)
		}
	})
}

// end ends the life of a client, and reports whether there was one. What the node was told is told.
func (a *asClient) end() bool {
	if a.cancel == nil {
		return false
	}
	a.hangs.Store(false)
	a.unfit.Store(false)
	a.cancel()
	<-a.done
	a.cancel, a.done = nil, nil
	return true
}

// greet makes this process known to the group. It goes on while the replica is ill or has too many calls:
// another one may serve soon.
func (a *asClient) greet(ctx context.Context) error {
	for {
		err := a.introduce(ctx)
		var refused *seam.RefusedError
		switch {
		case err == nil:
			a.n.Proposer.Greet()
			_ = a.n.Ready(ctx) // it has its place also if nobody asks
			return nil
		case errors.As(err, &refused), errors.Is(err, seam.ErrIncompatible):
			return err
		}
		if err := loop.Sleep(ctx, boundPause); err != nil {
			return err
		}
	}
}

var errShortTTL = errors.New("holdfast: the raft leader has not raised the longest TTL of the group yet")

// introduce says Hello if the group grants TTLs as long as this process may ask for: a raft leader raises
// the bound for it.
func (a *asClient) introduce(ctx context.Context) error {
	state, err := seam.Ask(ctx, a.n.Proposer, seam.Committed, fsm.QueryGroup{})
	if err != nil {
		return err
	}
	if cmp.Or(state.MaxTTL, fsm.TTLMax) < a.n.cfg.MaxTTL {
		return errShortTTL
	}
	return a.n.Hello(ctx)
}

// ready reports whether the replica is ready that serves this node. The first time it also takes that
// the voters are complete, as that replica sees them, and that this node finds all of them, or enough:
// a wiped voter's host is ready as a client at once, and an operator then goes on to the next.
func (a *asClient) ready(ctx context.Context) bool {
	placed := a.n.founder.placed.Load()
	if !a.roamer.ReadyOnce(ctx, !placed) {
		return false
	}
	if placed {
		return true
	}
	voters := a.roamer.Fleet().Voters
	var here []membership.Member
	for _, v := range voters {
		if m, ok := a.n.gossip.Member(v.Node); ok && m.Here() {
			here = append(here, m)
		}
	}
	if len(voters) == 0 { // the replica has not told yet
		return false
	}
	return suffice(len(here), len(voters)) && a.n.answered(ctx, here)
}

// show adds to a status what the replica that serves this node has told of the fleet.
func (a *asClient) show(st *seam.Status) {
	if !a.hangs.Load() {
		return
	}
	told := a.roamer.Fleet()
	told.Members, told.Drift = st.Members, st.Drift
	st.Fleet = told
	st.Serves = a.n.accepted() && a.n.founder.placed.Load() && a.roamer.Missing() == "" && a.n.Stopped() == nil
}

// giveBack says good-bye to the group through another node's replica, and reports whether the group
// has heard it, or knows of nothing to give back. A client whose directory could not be retired stays: its next
// process would be taken for a copy.
func (a *asClient) giveBack(ctx context.Context) bool {
	n := a.n
	departure, id := fsm.Stays, n.dir.Identity()
	group, _ := n.Proposer.Current()
	if n.fleeting || n.leaving() && (id.Retired || !id.Asks || group != nil) {
		departure = fsm.Gone
	}
	if !n.accepted() || departure == fsm.Stays && n.cfg.Listener.Empty() {
		return n.cfg.Listener.Empty()
	}
	short, cancel := context.WithTimeout(ctx, drainTime)
	n.Proposer.Drain(short)
	cancel()
	cmd := fsm.Encode(fsm.Goodbye{Node: n.self.Node, Incarnation: n.self.Incarnation, Departure: departure})
	for ctx.Err() == nil && n.ctx.Err() == nil {
		if group, _ := n.Proposer.Current(); group != nil { // its replica has caught up meanwhile
			return n.giveBackTo(ctx, group)
		}
		if _, result, _ := a.roamer.Group().Try(ctx, seam.Urgent, cmd); result == retry.Answered {
			n.given.Store(true)
			return true
		}
		_ = loop.Sleep(ctx, giveBackPause)
	}
	return false
}
