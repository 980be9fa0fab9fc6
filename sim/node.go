package sim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

const (
	port      = "7643"
	readyTime = 2 * time.Minute // virtual

	ttlDefault   = 15 * time.Second // of holdfast.Config
	driftDefault = 0.01
)

// Node is one node of the fleet: a host with a clock and a disk, on which a Cluster runs or not.
// What changes the state of a node (Open, Close, Crash, Pause and so on) is called by one goroutine
// at a time.
type Node struct {
	s     *Sim
	i     int
	host  string // under Sim.mu
	clock *clock.Skew

	mu   sync.Mutex
	disk *disk
	life *life // of what runs, nil if nothing does
	// Of its configuration:
	ttl   time.Duration
	drift float64

	// Under Sim.mu:
	isolated bool
	dying    bool
	killed   bool          // dying, and its kernel answers
	paused   chan struct{} // not nil: closed when the node is resumed
	frozen   bool          // paused, and its clocks with it
}

func newNode(s *Sim, i int) *Node {
	n := &Node{s: s, i: i, clock: clock.Skewed(clock.System(), 1)}
	s.change(func() { n.host = s.newHost() })
	n.disk = newDisk(n)
	return n
}

// Index is the node's number in the fleet, from 0.
func (n *Node) Index() int { return n.i }

// Cluster is what runs on the node, nil if nothing does.
func (n *Node) Cluster() *holdfast.Cluster {
	if l := n.running(); l != nil {
		return l.cluster
	}
	return nil
}

func (n *Node) running() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// Open starts the node on its disk. It fails the test if the node does not open.
func (n *Node) Open() *holdfast.Cluster {
	n.s.t.Helper()
	c, err := n.TryOpen()
	if err != nil {
		n.s.t.Fatalf("opening node %d: %v", n.i, err)
	}
	return c
}

// TryOpen starts the node on its disk.
func (n *Node) TryOpen() (*holdfast.Cluster, error) {
	cfg := holdfast.Config{Cluster: "sim", Name: fmt.Sprint("node", n.i), Logger: n.s.opts.Logger}
	host, others := n.s.addresses(n)
	cfg.Join = others
	switch founders := n.s.opts.Nodes; {
	case n.i >= founders: // it was added
		cfg.Bootstrap = -1
	case founders < 3:
		cfg.Bootstrap = founders
	}
	if n.s.opts.Config != nil {
		n.s.opts.Config(n.i, &cfg)
	}
	cfg.Bind = net.JoinHostPort(host, port)
	if n.s.opts.Diskless {
		n.empty()
	}
	every := uint64(max(0, n.s.opts.SnapshotEvery))
	env := simenv.Env{Network: n.s.net, Clock: n.clock, Fleeting: n.s.opts.Diskless, SnapshotEvery: every, SnapshotKeep: every / 8}
	if !cfg.ClientOnly {
		var err error
		if env.Dir, err = n.storage().openDir(cfg.Cluster); err != nil {
			return nil, err
		}
	}
	if n.s.opts.Env != nil {
		n.s.opts.Env(n.i, &env)
	}
	c, err := holdfast.Open(simenv.With(context.Background(), env), cfg)
	if err != nil {
		return nil, err
	}
	n.s.note("node %d is opened as %s", n.i, c.ID())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ttl, n.drift = cmp.Or(cfg.TTL, ttlDefault), cmp.Or(cfg.MaxClockDrift, driftDefault)
	n.life = n.begin(c)
	return c, nil
}

// Ready waits until the node can serve and fails the test if that takes two virtual minutes.
func (n *Node) Ready() {
	n.s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if err := n.Cluster().Ready(ctx); err != nil {
		n.s.t.Fatalf("node %d is not ready: %v", n.i, err)
	}
}

func (n *Node) take() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.life
	n.life = nil
	return l
}

// Close closes what runs on the node, in good order: first the service, then the Cluster. It ends a
// pause, and a disk hangs no more.
func (n *Node) Close() {
	n.Resume()
	n.storage().unstick(stuckByHang)
	if l := n.take(); l != nil {
		n.s.fault("node %d is closed", n.i)
		l.end()
		_ = l.cluster.Close()
	}
}

// Restart closes what runs on the node and starts it again. It fails the test if the node does not
// open.
func (n *Node) Restart() *holdfast.Cluster {
	n.s.t.Helper()
	n.Close()
	return n.Open()
}

// Crash ends what runs on the node as a power cut does: from one moment to the next nothing of it
// reaches the network, and what was not synced is gone from its disk. It returns, some virtual
// seconds later, once the node can be opened again.
func (n *Node) Crash() { n.die("crashes: its power fails", false) }

// Kill ends what runs on the node as SIGKILL does: like Crash, but the disk keeps all that was
// written, and the kernel lives. It ends the connections at once, and refuses dials.
func (n *Node) Kill() { n.die("is killed", true) }

func (n *Node) die(how string, written bool) {
	l := n.take()
	if l == nil {
		return
	}
	n.s.fault("node %d %s", n.i, how)
	n.s.change(func() { n.dying, n.killed, l.dead = true, written, true })
	if written {
		n.s.hangUp(n)
	}
	restore := n.storage().lose(written)
	n.wake()
	n.storage().unstick(stuckByHang)
	l.cancel()
	_ = l.cluster.Close()
	l.end()
	n.s.net.Break(n.host, "*") // or what its zombie wrote meanwhile would arrive when the cut ends
	restore()
	n.s.change(func() { n.dying, n.killed = false, false })
}

func (n *Node) storage() *disk {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk
}

// Wipe gives a node on which nothing runs an empty disk: it comes back as a new node.
func (n *Node) Wipe() {
	n.s.fault("node %d loses its disk", n.i)
	n.empty()
}

func (n *Node) empty() {
	d := newDisk(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk = d
}

// CopyDisk gives a node on which nothing runs a copy of another's disk, of what was written until
// now: as a volume that is attached to another machine, a machine that is restored from an image,
// or cp -r. What runs on the other one goes on.
func (n *Node) CopyDisk(from *Node) error {
	n.s.fault("node %d takes a copy of the disk of node %d", n.i, from.i)
	copied := newDisk(n)
	if err := from.storage().copyTo(copied); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk = copied
	return nil
}

// SlowDisk makes every sync of the node's Raft log take d, until it is set to 0.
func (n *Node) SlowDisk(d time.Duration) {
	n.s.fault("node %d: a sync of its log takes %v", n.i, d)
	n.storage().slow(d)
}

// HangDisk makes every sync of the node's Raft log wait until it is called with false, as a volume
// does whose storage stands still. The node is connected and its clock goes on. A crash ends it.
func (n *Node) HangDisk(hangs bool) {
	n.s.fault("node %d: its disk hangs: %v", n.i, hangs)
	if hangs {
		n.storage().stick(stuckByHang)
	} else {
		n.storage().unstick(stuckByHang)
	}
}

// FullDisk makes every write to the node's disk fail for want of room, until it is called with
// false. A node with a replica that meets it stops serving for good (see holdfast.Cluster.Done) and may only be
// closed: it leaves goroutines behind, which testing/synctest reports as a deadlock at the end of
// the test, so this is for tests that run in a process of their own.
func (n *Node) FullDisk(full bool) {
	n.s.fault("node %d: its disk is full: %v", n.i, full)
	n.storage().fill(full)
}

// Pause stops the node as SIGSTOP does, as nearly as a part of a process can be stopped: its clock
// shows no progress to it, nothing goes to or from it (streams are held, packets are lost), and
// nothing gets into its Raft log. Goroutines cannot be stopped from outside: the test must hold
// what it does on the node's behalf, see Awake. Section.Enter does.
func (n *Node) Pause() {
	n.s.fault("node %d is paused", n.i)
	n.stop(false)
}

// Freeze stops the node with all of its clocks, as a hypervisor does that pauses a machine for a
// snapshot or moves it: like Pause, but after Resume neither the clock nor the wall clock shows it. A
// lease may then look valid although the group has granted its lock to another, until the first
// message of another replica comes (see docs/guarantees.md). Section takes that for an overlap, so
// Nemesis does it only if asked: FaultFreeze.
func (n *Node) Freeze() {
	n.s.fault("node %d is frozen with its clocks", n.i)
	n.stop(true)
}

func (n *Node) stop(clocks bool) {
	n.s.change(func() {
		if n.paused == nil {
			n.paused = make(chan struct{})
		}
		n.frozen = n.frozen || clocks
	})
	n.clock.Freeze()
	n.storage().stick(stuckByPause)
}

// Resume ends Pause, and the node's clock shows at once how long it was, or Freeze.
func (n *Node) Resume() {
	if n.wake() {
		n.s.fault("node %d is resumed", n.i)
	}
}

func (n *Node) wake() (paused bool) {
	n.s.change(func() {
		if n.frozen {
			n.clock.ThawLate()
		}
		n.clock.Thaw()
		n.frozen = false
		if paused = n.paused != nil; paused {
			close(n.paused)
			n.paused = nil
		}
	})
	n.storage().unstick(stuckByPause)
	return paused
}

// Awake returns a channel that is closed when the node is not paused, at once if it is not now.
func (n *Node) Awake() <-chan struct{} {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if n.paused != nil {
		return n.paused
	}
	awake := make(chan struct{})
	close(awake)
	return awake
}

// Drift sets the rate of the node's clock, 1 being right.
func (n *Node) Drift(rate float64) {
	n.s.fault("node %d: its clock runs at a rate of %v", n.i, rate)
	n.clock.Rate(rate)
}

// Suspend moves the node's clock forward at once, as it looks to a holder when its machine was
// suspended for d. For the others no time goes by: a node that times their sessions, as every
// replica does, ends those early after it, which no suspension can do. In a fleet, Pause for d is
// what a suspension is.
func (n *Node) Suspend(d time.Duration) {
	n.s.fault("node %d: its machine was suspended for %v", n.i, d)
	n.clock.Suspend(d)
}

// WallClock sets how far the node's wall clock is ahead of the right time; below zero it is behind.
// No lease goes by it: it is where fencing tokens start, and start again after a backup was
// restored.
func (n *Node) WallClock(ahead time.Duration) {
	n.s.fault("node %d: its wall clock is ahead by %v", n.i, ahead)
	n.clock.SetWall(ahead)
}
