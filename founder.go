package holdfast

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	inboxMax   = 256             // messages about forming that wait
	metaRetry  = time.Second     // between attempts to tell the others something about this node
	sendTime   = 3 * time.Second // for one message
	floorRetry = time.Second     // between questions to Config.TokenFloor that fail, before a birth
)

// founder brings the node into a group: the one that it belongs to, one that it sees, or a new one.
type founder struct {
	c           *Cluster
	wakeup      chan struct{}
	inbox       chan forming.Message
	rivals      *rivals
	joins       bool       // it has given a group up, and founds no other; of the goroutine of live
	initialized bool       // this process gave the group its birth
	saving      sync.Mutex // held from reading the identity to having saved it

	out     atomic.Uint64 // the replica that the group has removed, if that is the present one: see life.go
	removal chan struct{} // tells live of it
	placed  atomic.Bool   // Ready was answered once: this node has its place in the fleet
}

func newFounder(c *Cluster) *founder {
	return &founder{
		c: c, wakeup: make(chan struct{}, 1), inbox: make(chan forming.Message, inboxMax), rivals: newRivals(c),
		removal: make(chan struct{}, 1),
	}
}

func (f *founder) wake() {
	select {
	case f.wakeup <- struct{}{}:
	default:
	}
}

// message takes what another node sends; it is dropped when too much waits, and asked for again.
func (f *founder) message(from string, b []byte) {
	m, err := forming.Decode(b)
	if err != nil || m.From != from {
		return
	}
	group := f.c.dir.Identity().ClusterID
	switch {
	case m.Kind == forming.Removed && m.Copied:
		if m.Cluster == group && m.Replica == f.replica() {
			f.c.fail(dirError(fmt.Errorf("%w, says raft leader %v: the group has a replica of this node in another life",
				consensus.ErrForgetful, m.From)))
		}
		return
	case m.Kind == forming.Ask, m.Kind == forming.Answer:
		f.rivals.hear(m)
		return
	case m.Kind == forming.Removed && group != "":
		if m.Cluster == group {
			f.c.goRun(func(context.Context) { f.replicaRemoved(m.Replica, m.Left) })
		}
		return
	case m.Kind == forming.Welcome && group != "": // heard before
		return
	}
	select {
	case f.inbox <- m:
	default:
	}
}

// enter returns when the node has its group.
func (f *founder) enter(ctx context.Context) error {
	if f.c.dir.Identity().ClusterID != "" {
		return nil
	}
	return f.form(ctx)
}

// begin returns when the group has its birth, and may be served.
func (f *founder) begin(ctx context.Context) error {
	f.tell(ctx, f.c.meta(f.c.firstPhase()))
	if f.c.dir.Identity().Asks {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
	}
	if f.c.dir.Identity().Bootstrap > 0 {
		if err := f.initialize(ctx); err != nil {
			return err
		}
	}
	return f.rivals.clear(ctx)
}

// form takes part in forming until there is a group to start.
func (f *founder) form(ctx context.Context) error {
	id := f.c.dir.Identity()
	state := forming.New(forming.Config{
		Self: id.NodeID, Incarnation: id.Incarnation, Bootstrap: f.bootstrap(), Join: len(f.c.cfg.Join) > 0,
	}, forming.Vote(id.Vote), f.c.clock.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	wants := "" // the group that this node asks to join
	told := f.c.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-f.inbox:
			switch {
			case wants != "" && m.Cluster == wants && m.Replica == f.replica() && m.Kind == forming.Welcome:
				return f.start(func(id *datadir.Identity) { id.ClusterID = m.Cluster })
			case wants != "" && m.Cluster == wants && m.Replica == f.replica() && m.Kind == forming.Removed:
				if err := f.nextLife(); err != nil { // it was taken in and removed while it heard nothing
					return err
				}
				f.ask(ctx, wants)
			default:
				state.Receive(m)
			}
		case <-timer.C:
		case <-f.wakeup:
		}
		now := f.c.clock.Now()
		in := f.input()
		out := state.Step(in)
		if out.Save {
			if err := f.save(func(id *datadir.Identity) { id.Vote = datadir.Vote(out.Vote) }); err != nil {
				return err
			}
		}
		f.send(out.Send)
		f.rivals.show(forming.Groups(in.Peers), out.Cluster)
		if out.Action == forming.Form {
			return f.start(func(id *datadir.Identity) {
				id.ClusterID, id.Bootstrap, id.Birth = uuid.NewString(), uint32(f.c.cfg.Bootstrap), out.Counter
			})
		}
		if out.Cluster != wants {
			wants = out.Cluster
			f.ask(ctx, wants)
		}
		if time.Duration(now-told) >= waitTold {
			told = now
			f.c.log.Warn("this node belongs to no group yet", "cluster", f.c.cfg.Cluster, "waits", f.missing())
		}
		timer.Reset(max(time.Duration(out.Next-now), 10*time.Millisecond))
	}
}

// ask says in gossip that this node would join a group, or that it is fresh again. The raft leader
// of the group then gives it a replica and says Welcome; only that binds the node to the group, so
// that one whose group dies before is free for another.
func (f *founder) ask(ctx context.Context, cluster string) {
	meta := f.c.meta(f.c.firstPhase())
	if cluster != "" {
		meta.Phase, meta.ClusterID = membership.PhaseJoining, cluster
	}
	f.tell(ctx, meta)
}

// bootstrap is how many nodes must meet as far as this one is concerned: Config's, unless the node
// has given a group up.
func (f *founder) bootstrap() int {
	if f.joins {
		return -1
	}
	return f.c.cfg.Bootstrap
}

func (f *founder) input() forming.Input {
	in := forming.Input{Now: f.c.clock.Now(), Unix: f.c.clock.Wall().Unix(), Peers: f.rivals.peers()}
	select {
	case <-f.c.gossip.Tried():
		in.JoinTried = true
	default:
	}
	return in
}

// send sends in the background: a peer that hangs holds up nobody else.
func (f *founder) send(messages []forming.Message) {
	for _, m := range messages {
		f.c.goRun(func(ctx context.Context) { f.deliver(ctx, m) })
	}
}

func (f *founder) deliver(ctx context.Context, m forming.Message) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := f.c.gossip.Send(ctx, m.To, m.Encode()); err != nil {
		f.c.log.Debug("sending a message about forming", "to", m.To, "error", err)
	}
}

// start makes the node a member of a group, durably, and starts its replica.
func (f *founder) start(decide func(*datadir.Identity)) error {
	if err := f.save(decide); err != nil {
		return err
	}
	return f.startReplica()
}

// startReplica starts the replica of the group that the identity names.
func (f *founder) startReplica() error {
	c := f.c
	id := c.dir.Identity()
	how := consensus.StartJoin
	switch {
	case id.Started:
		how = consensus.StartRestart
	case id.Bootstrap > 0:
		how = consensus.StartBootstrap
	}
	group, err := consensus.Open(consensus.Config{
		Node: id.NodeID, Incarnation: c.self.Incarnation, Life: id.Life, Cluster: id.ClusterID, Dir: c.dir.RaftDir(), FS: c.dir.FS(),
		Tick: c.cfg.Timing.Tick, Heartbeat: c.cfg.Timing.Heartbeat, Election: c.cfg.Timing.Election,
		Endpoint: c.endpoint, Resolve: c.gossip.Address, Observer: applyListener{c, f.replica()}, Wall: c.clock.Wall, Logger: c.log, Limits: c.limits,
		SnapshotEntries: c.snapshotEvery, SnapshotKeep: c.snapshotKeep, Figures: &c.counters.raft,
	}, how)
	if err != nil {
		return dirError(err)
	}
	if !c.adopt(group) {
		_ = group.Close()
		return ErrClosed
	}
	if !id.Started {
		return f.save(func(id *datadir.Identity) { id.Started = true })
	}
	return nil
}

// adopt lets the node work on group, unless the node is being closed.
func (c *Cluster) adopt(group *consensus.Group) bool {
	return c.unlessStopping(func() {
		c.replica.Store(group)
		if c.dir.Identity().Asks { // see catchUp
			return
		}
		c.proposer.Start(group)
		if c.proposer.GivenUp() > 0 {
			c.feed.Skipped(1) // who watches has the state of the group that was given up
		}
	})
}

// initialize gives the group that this node formed its birth: its id, where its tokens begin, and
// which replicas it must have before it serves.
func (f *founder) initialize(ctx context.Context) error {
	group, err := f.c.barrier(ctx)
	if err != nil {
		return err
	}
	born := false
	group.Read(func(m *fsm.Machine) { born = m.Info().Born })
	if born {
		return nil
	}
	floor, err := f.floor(ctx, floorRetry)
	if err != nil {
		return err
	}
	f.initialized = true
	id := f.c.dir.Identity()
	cluster, err := fsm.ParseNode(id.ClusterID)
	if err != nil {
		return err
	}
	out, err := f.c.insist(ctx, fsm.Birth{
		Cluster: cluster, Counter: max(id.Birth, floor),
		Bootstrap: id.Bootstrap, Voters: min(id.Bootstrap, uint32(f.c.cfg.Voters)),
	})
	if err == nil && out.Code != fsm.CodeOK {
		err = fmt.Errorf("holdfast: the group refused its birth: %v", out.Code)
	}
	return err
}

// floor asks the user's hook for the highest token that a resource has seen, until it answers, less
// and less often down to once in rarest.
func (f *founder) floor(ctx context.Context, rarest time.Duration) (uint64, error) {
	if f.c.cfg.TokenFloor == nil {
		return 0, nil
	}
	type answer struct {
		token Token
		err   error
	}
	for pause := floorRetry; ; pause = min(2*pause, rarest) {
		answers := make(chan answer, 1)
		go func() { // the hook may not listen to ctx; Close does not wait for it
			defer func() {
				if r := recover(); r != nil {
					answers <- answer{err: fmt.Errorf("holdfast: Config.TokenFloor panicked: %v", r)}
				}
			}()
			token, err := f.c.cfg.TokenFloor(ctx)
			answers <- answer{token, err}
		}()
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		switch {
		case a.err == nil && a.token <= fence.TokenMax:
			return uint64(a.token), nil
		case a.err == nil:
			a.err = fmt.Errorf("holdfast: Config.TokenFloor answered %d, which is no token", a.token)
		}
		f.c.log.Error("Config.TokenFloor has not answered: it is asked again, and a new group waits for it", "error", a.err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// tell sets what gossip says about this node, again and again until it is said.
func (f *founder) tell(ctx context.Context, meta membership.Meta) {
	for {
		err := f.c.gossip.SetMeta(meta)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.c.log.Warn("telling the others about this node", "error", err)
		select {
		case <-time.After(metaRetry):
		case <-ctx.Done():
		}
	}
}

// save changes the identity durably. Nobody else does.
func (f *founder) save(change func(*datadir.Identity)) error {
	f.saving.Lock()
	defer f.saving.Unlock()
	id := f.c.dir.Identity()
	change(&id)
	if err := f.c.dir.Save(id); err != nil {
		return fmt.Errorf("holdfast: saving the identity: %w", err)
	}
	return nil
}
