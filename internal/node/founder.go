package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	inboxMax = 256                    // messages about forming that wait
	sendTime = 3 * time.Second        // for one message
	stepEach = 200 * time.Microsecond // as lookEach, of a node without a group
	waitTold = 10 * time.Second       // between two lines of the log in which a node without a group says what it waits for
)

// founder brings the node into a group: the one that it belongs to, one that it sees, or a new one.
type founder struct {
	n           *Node
	wakeup      chan struct{}
	inbox       chan forming.Message
	rivals      *rivals
	announcer   announcer
	joins       atomic.Bool   // the node has given a group up, and founds no other
	initialized bool          // this process proposed the group's birth
	saving      chan struct{} // capacity 1: full from reading the identity to having saved it
	disk        disk          // the data directory, and what it has not finished

	abandoned atomic.Bool // an engine of this process has failed in the directory, and keeps files of it

	out     atomic.Uint64 // the replica that the group has removed, if that is the present one: see life.go
	removal chan struct{} // wakes rivals.watch after a change of out
	placed  atomic.Bool   // Ready was answered once: this node has its place in the fleet
	shown   atomic.Bool   // a View showed once that it serves: the voters were complete then
}

func newFounder(n *Node) *founder {
	f := &founder{
		n: n, wakeup: make(chan struct{}, 1), inbox: make(chan forming.Message, inboxMax), rivals: newRivals(n),
		removal: make(chan struct{}, 1), saving: make(chan struct{}, 1),
	}
	f.announcer.f = f
	return f
}

func (f *founder) wake() {
	select {
	case f.wakeup <- struct{}{}:
	default:
	}
}

// message handles a message of another node. A message is dropped if the inbox is full; its sender
// repeats it.
func (f *founder) message(from string, b []byte) {
	m, err := forming.Decode(b)
	if err != nil || m.From != from {
		return
	}
	group := f.n.dir.Identity().ClusterID
	switch {
	case m.Kind == forming.Removed && m.DuplicateDirectory:
		if m.Cluster == group && m.Replica == f.replica() {
			f.n.fail(fmt.Errorf("%w: raft leader %v has a replica of this node in another life",
				consensus.ErrForgetful, m.From))
		}
		return
	case m.Kind == forming.Ask, m.Kind == forming.Answer:
		f.rivals.hear(m)
		return
	case m.Kind == forming.TakeOver:
		if m.Cluster == group {
			f.n.takeOver(m.From)
		}
		return
	case m.Kind == forming.Removed && group != "":
		if m.Cluster == group {
			f.n.Go(func(context.Context) { f.replicaRemoved(m.Replica, m.AfterLeave) })
		}
		return
	case (m.Kind == forming.Welcome || m.Kind == forming.Client) && group != "":
		if m.Cluster == group {
			f.n.asClient.hear(m)
		}
		return
	}
	select {
	case f.inbox <- m:
	default:
	}
}

// begin returns when the group has its birth, and the node may serve it.
func (f *founder) begin(ctx context.Context) error {
	f.tell(ctx, f.n.meta(f.n.firstPhase()))
	if f.n.dir.Identity().Asks {
		for caughtUp := false; !caughtUp; {
			err := f.n.asClient.stay(ctx)
			if err == nil {
				caughtUp, err = f.catchUp(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	if f.n.dir.Identity().Bootstrap > 0 {
		f.announcer.announce(func(p forming.Peer) bool { return p.Fresh })
		if err := f.initialize(ctx); err != nil {
			return err
		}
	}
	return f.rivals.clear(ctx)
}

// form runs the forming of a group until the node has a group and its replica runs.
func (f *founder) form(ctx context.Context) error {
	id := f.n.dir.Identity()
	state := forming.New(forming.Config{
		Self: id.NodeID, Incarnation: id.Incarnation, Bootstrap: f.bootstrap(), Join: len(f.n.cfg.Join) > 0,
	}, forming.Vote(id.Vote), f.n.clock.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	wants := "" // the group that this node asks to join
	tried := f.n.gossip.Tried()
	lines := waitLines()
	var rest rest
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-f.inbox:
			switch {
			case wants != "" && m.Cluster == wants && m.Replica == f.replica() && m.Kind == forming.Welcome:
				return f.start(func(id *datadir.Identity) { id.ClusterID = m.Cluster })
			case wants != "" && m.Cluster == wants && m.Replica == f.replica() && m.Kind == forming.Client:
				f.n.asClient.hear(m)
				return f.save(f.n.ctx, func(id *datadir.Identity) { id.ClusterID, id.Asks = m.Cluster, true })
			case wants != "" && m.Cluster == wants && m.Replica == f.replica() && m.Kind == forming.Removed:
				if err := f.nextLife(); err != nil { // the group added the replica and removed it, and the Welcome was lost
					return err
				}
				f.ask(ctx, wants)
			default:
				state.Receive(m)
			}
		case <-timer.C:
		case <-tried: // a node that founds alone waits for nothing else
			tried = nil
		case <-f.wakeup:
			if soon := rest.left(time.Now()); soon > 0 {
				timer.Reset(soon)
				continue
			}
		}
		in := f.input()
		rest.begin(time.Now(), time.Duration(len(in.Peers))*stepEach)
		out := state.Step(in)
		if out.Save {
			if err := f.save(f.n.ctx, func(id *datadir.Identity) { id.Vote = datadir.Vote(out.Vote) }); err != nil {
				return err
			}
		}
		f.send(out.Send)
		f.rivals.show(forming.Groups(in.Peers), out.Cluster)
		if out.Action == forming.Form {
			return f.start(func(id *datadir.Identity) {
				id.ClusterID, id.Bootstrap, id.Birth = uuid.NewString(), uint32(f.n.cfg.Bootstrap), out.Counter
			})
		}
		if out.Cluster != "" { // gossip may tell the level late, or it rises while the node waits
			if err := f.n.older(out.Cluster); err != nil {
				return err
			}
		}
		if out.Cluster != wants {
			wants = out.Cluster
			f.ask(ctx, wants)
		}
		f.announcer.poll()
		if _, ok := lines.Take(time.Now()); ok {
			f.n.log.Warn("this node belongs to no group yet", "cluster", f.n.cfg.Cluster, "waits", f.n.Missing())
		}
		timer.Reset(max(time.Duration(out.Next-f.n.clock.Now()), 10*time.Millisecond))
	}
}

// waitLines lets a line through each waitTold, and the first one after that time.
func waitLines() *sparse.Lines {
	lines := &sparse.Lines{Most: 1, Period: waitTold}
	lines.Take(time.Now())
	return lines
}

// ask announces in gossip that this node asks to join a group, or that it is fresh again. The raft
// leader of the group then adds a replica of the node and sends Welcome. Only the Welcome binds the
// node to the group: a node whose group dies before is free for another.
func (f *founder) ask(ctx context.Context, cluster string) {
	meta := f.n.meta(f.n.firstPhase())
	if cluster != "" {
		meta.Phase, meta.ClusterID = autopilot.PhaseJoining, cluster
	}
	f.tell(ctx, meta)
	f.announcer.begin(cluster, 0)
}

// bootstrap is Config.Bootstrap, or -1 after the node has given a group up.
func (f *founder) bootstrap() int {
	if f.joins.Load() {
		return -1
	}
	return f.n.cfg.Bootstrap
}

func (f *founder) input() forming.Input {
	return forming.Input{Now: f.n.clock.Now(), Unix: f.n.clock.Wall().Unix(), Peers: f.rivals.peers(), JoinTried: f.joinTried() && len(f.n.gossip.Strangers()) == 0}
}

// joinTried reports whether gossip has tried all of Config.Join once.
func (f *founder) joinTried() bool {
	select {
	case <-f.n.gossip.Tried():
		return true
	default:
		return false
	}
}

// send sends messages in the background, so that a peer that hangs delays no other.
func (f *founder) send(messages []forming.Message) {
	for _, m := range messages {
		f.n.Go(func(ctx context.Context) { _ = f.deliver(ctx, m) })
	}
}

func (f *founder) deliver(ctx context.Context, m forming.Message) error {
	return f.try(ctx, m.To, func(ctx context.Context) error { return f.n.gossip.Send(ctx, m.To, m.Encode()) })
}

// try sends once, for sendTime at most. What is lost is sent again by those that need it.
func (f *founder) try(ctx context.Context, to string, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := send(ctx)
	if err != nil {
		f.n.log.Debug("sending a message about forming", "to", to, "error", err)
	}
	return err
}

// start makes the node a member of a group, durably, and starts its replica.
func (f *founder) start(decide func(*datadir.Identity)) error {
	if err := f.save(f.n.ctx, decide); err != nil {
		return err
	}
	return f.startReplica()
}

// startReplica starts the replica of the group that the identity names.
func (f *founder) startReplica() error {
	n := f.n
	id := n.dir.Identity()
	how := consensus.StartJoin
	switch {
	case id.Started:
		how = consensus.StartRestart
	case id.Bootstrap > 0:
		how = consensus.StartBootstrap
	}
	if id.Alone() && id.Bootstrap == 1 && len(n.cfg.Join) == 0 {
		n.log.Info("this node has no Config.Join: it is a fleet of its own, until others join it", "cluster", n.cfg.Cluster)
	}
	finished := func() {}
	if how != consensus.StartRestart { // else it carries out a log first, which takes its time
		finished = f.disk.begin(n)
	}
	group, err := consensus.Open(n.ctx, consensus.Config{
		Node: id.NodeID, Incarnation: n.self.Incarnation, Life: id.Life, Cluster: id.ClusterID, Dir: n.dir.RaftDir(), FS: n.dir.FS(),
		Tick: n.cfg.Tick, Heartbeat: n.cfg.Heartbeat, Election: n.cfg.Election,
		Endpoint: n.endpoint, Resolve: n.gossip.Address, Observer: observer{n, f.replica()}, Wall: n.clock.Wall, Clock: n.clock.Progress, Drift: n.cfg.MaxClockDrift, Behind: n.clockBehind, Logger: n.log, Limits: n.cfg.Env.Limits, Level: n.knows(),
		SnapshotEntries: n.cfg.Env.SnapshotEvery, SnapshotKeep: n.cfg.Env.SnapshotKeep, Figures: n.cfg.Figures,
	}, how)
	finished()
	if err != nil {
		if !mayReopen(err) {
			f.abandoned.Store(true)
		}
		return n.outdated(err)
	}
	if !n.adopt(group) {
		_ = group.Close()
		return seam.ErrEnded
	}
	if !id.Started {
		return f.save(f.n.ctx, func(id *datadir.Identity) { id.Started = true })
	}
	return nil
}

// initialize proposes the birth of the group that this node formed: its id, its first token, and
// the replicas that it must have before it serves.
func (f *founder) initialize(ctx context.Context) error {
	group, err := f.n.Proposer.Barrier(ctx)
	if err != nil {
		return err
	}
	born := false
	group.Read(func(m *fsm.Machine) { born = m.Info().Born })
	if born {
		return nil
	}
	floor, err := f.n.floor(ctx, floorPause)
	if err != nil {
		return err
	}
	f.initialized = true
	id := f.n.dir.Identity()
	cluster, err := fsm.ParseNode(id.ClusterID)
	if err != nil {
		return err
	}
	out, err := f.n.insist(ctx, fsm.Birth{
		Cluster: cluster, Counter: max(id.Birth, floor),
		Bootstrap: id.Bootstrap, Voters: min(id.Bootstrap, uint32(f.n.cfg.Voters)),
	})
	if err == nil && out.Code != fsm.CodeOK {
		err = fmt.Errorf("holdfast: the group refused its birth: %v", out.Code)
	}
	return err
}

// tell sets what gossip says about this node, and repeats that until it succeeds.
func (f *founder) tell(ctx context.Context, meta membership.Meta) {
	for {
		err := f.n.gossip.SetMeta(meta)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.n.log.Warn("updating gossip metadata failed", "error", err)
		_ = loop.Sleep(ctx, time.Second)
	}
}

// save changes the identity durably; no other function does. The end of ctx ends the wait for a disk that
// hangs.
func (f *founder) save(ctx context.Context, change func(*datadir.Identity)) error {
	err := f.write(ctx, func() error {
		id := f.n.dir.Identity()
		change(&id)
		return f.n.dir.Save(id)
	})
	if err != nil {
		return fmt.Errorf("holdfast: saving the identity: %w", err)
	}
	return nil
}

const writeGrace = time.Second // for a write after the end of its context

var errDiskHangs = errors.New("holdfast: the data directory is still written to: its disk hangs")

// write changes the data directory, apart from the node's goroutines: Close waits for those.
func (f *founder) write(ctx context.Context, do func() error) error {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if loop.Sleep(within, writeGrace) == nil {
			cancel()
		}
	})()
	select {
	case f.saving <- struct{}{}:
	case <-within.Done():
		return errDiskHangs
	}
	done, finished := make(chan error, 1), f.disk.begin(f.n)
	go func() {
		err := do()
		finished()
		<-f.saving
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-within.Done():
		return errDiskHangs
	}
}

// quiet waits until no write is under way, and holds up those that follow until end is called. ok is false
// where a disk hangs.
func (f *founder) quiet() (end func(), ok bool) {
	select {
	case f.saving <- struct{}{}:
		return func() { <-f.saving }, true
	case <-time.After(writeGrace):
		return nil, false
	}
}
