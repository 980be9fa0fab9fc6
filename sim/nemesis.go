package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/transport"
)

// Fault is a kind of fault that Nemesis injects.
type Fault uint8

// The kinds.
const (
	FaultPartition Fault = iota + 1 // the network parts into two
	FaultCut                        // one direction between a node and the others is cut
	FaultNetwork                    // delay, loss, duplicates and reordering, around one node
	FaultPause                      // a node stops, as its machine does when it is suspended; its clock goes on
	FaultKill                       // a node's process ends
	FaultCrash                      // the power of a node fails
	FaultBlackout                   // the power of all nodes fails
	FaultWipe                       // a node loses its disk with its process, while the group can spare it
	FaultRestart                    // a node is closed in good order and opened again
	FaultSlowDisk                   // a node's log is slow
	FaultDrift                      // a node's clock is fast or slow, within Config.MaxClockDrift
	FaultGossip                     // the gossip of a node is cut off, and its Raft connections are not
	FaultRaft                       // the Raft connections of a node are cut off, and its gossip is not
	FaultMove                       // a node that was cut off goes on on another machine, with a copy of its disk
	FaultReplace                    // another machine takes the place of a dead one: a new address, an empty disk
	FaultReimage                    // a machine is made anew at its address, and opened at once
	FaultLeave                      // some nodes leave at one moment, perhaps all
	FaultRoll                       // a rolling update in batches, each of which leaves at one moment; the next waits for Ready
	FaultHungDisk                   // what a node writes to its log waits
	FaultLarge                      // what a node sends and is sent is lost above 600 bytes
	FaultRevoke                     // an operator revokes a node, which lives and may go on for a while: only tokens stop it
	FaultFreeze                     // a node stops with all of its clocks: a lease outlives its TTL, until the first message
)

// String is the kind in words.
func (f Fault) String() string {
	names := []string{
		"partition", "one-way cut", "bad network", "pause", "kill", "crash", "blackout", "wipe", "restart", "slow disk",
		"clock drift", "gossip cut off", "raft cut off", "disk moved", "replacement", "machine made anew",
		"leave", "rolling update", "hung disk", "large packets lost", "revocation", "freeze",
	}
	if i := int(f) - 1; i >= 0 && i < len(names) {
		return names[i]
	}
	return "unknown"
}

// largeMax is how many bytes still pass where what is large is lost.
const largeMax = 600

// allFaults are what Nemesis chooses from.
func allFaults() []Fault {
	var all []Fault
	for f := FaultPartition; f < FaultRevoke; f++ { // nobody revokes or freezes by chance: two may hold then
		all = append(all, f)
	}
	return all
}

// Nemesis injects faults for d of virtual time, one fault after another, as the seed says: of the
// given kinds, or, if none is given, of about half of all kinds but FaultRevoke and FaultFreeze, so that different
// seeds find different things. Each fault lasts up to two TTLs, now and then so long that the group
// replaces the node, and for minutes after that. What loses a disk, and without disks what ends a
// process, waits until the group can spare the node (but FaultBlackout: without disks it ends the
// group). A node that may not leave where all voters are well fails the test. Then it ends all
// faults, opens the nodes that are closed, and waits until all can serve, which fails the test if
// it takes more than two virtual minutes.
func (s *Sim) Nemesis(d time.Duration, kinds ...Fault) {
	s.t.Helper()
	r := rand.New(rand.NewPCG(s.lots.Uint64(), s.lots.Uint64()))
	for len(kinds) == 0 {
		for _, f := range allFaults() {
			if r.IntN(2) == 0 {
				kinds = append(kinds, f)
			}
		}
	}
	s.note("nemesis for %v: %v", d, kinds)
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(upTo(r, 5*time.Second))
		n := s.nodes[r.IntN(len(s.nodes))]
		what := kinds[r.IntN(len(kinds))]
		s.inject(r, what, n, s.lasts(r, what, n))
		s.revive()
	}
	s.Heal()
	for _, n := range s.nodes {
		n.SlowDisk(0)
		n.HangDisk(false)
		n.Drift(1)
	}
	s.settle()
}

// settle waits until all nodes can serve, and opens those that cannot come back by themselves.
func (s *Sim) settle() {
	s.t.Helper()
	for end := time.Now().Add(readyTime); ; {
		s.revive()
		ready := 0
		for _, n := range s.nodes {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if n.Cluster().Ready(ctx) == nil {
				ready++
			}
			cancel()
		}
		if ready == len(s.nodes) {
			return
		}
		if time.Now().After(end) {
			s.fail("%v after the end of all faults %d of %d nodes can serve", readyTime, ready, len(s.nodes))
			return
		}
	}
}

// revive opens the nodes on which nothing runs, and those that the group has let go as they were
// about to leave. One that it has replaced comes back by itself.
func (s *Sim) revive() {
	s.t.Helper()
	for _, n := range s.nodes {
		c := n.Cluster()
		if c != nil && errors.Is(c.Err(), holdfast.ErrRemoved) {
			n.Close()
			c = nil
		}
		if c == nil {
			n.Open()
		}
	}
}

func upTo(r *rand.Rand, max time.Duration) time.Duration {
	return time.Millisecond + time.Duration(r.Int64N(int64(max)))
}

func (s *Sim) lasts(r *rand.Rand, what Fault, n *Node) time.Duration {
	whole := what == FaultBlackout || what == FaultPartition // nobody would serve meanwhile
	switch luck := r.IntN(100); {                            // a failed voter is replaced after 30 s
	case luck < 1 && !whole:
		return 40*time.Second + upTo(r, 9*time.Minute)
	case luck < 6:
		return 40 * time.Second
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return upTo(r, 2*n.ttl)
}

// inject does one fault, from its beginning to its end, but for drift, which stays.
func (s *Sim) inject(r *rand.Rand, what Fault, n *Node, d time.Duration) {
	switch what {
	case FaultPartition, FaultCut, FaultNetwork, FaultLarge:
		s.breakNetwork(r, what, n)
		time.Sleep(d)
		s.Heal()
	case FaultPause, FaultFreeze:
		if what == FaultFreeze {
			n.Freeze()
		} else {
			n.Pause()
		}
		time.Sleep(d)
		n.Resume()
	case FaultKill, FaultCrash:
		s.end(what, n)
		time.Sleep(d)
	case FaultBlackout:
		s.blackout()
		time.Sleep(d)
	case FaultWipe, FaultReplace, FaultReimage:
		if s.spare() {
			s.lose(what, n, d)
		}
	case FaultRestart:
		if !s.opts.Diskless || s.whole() > 0 { // else Close may find nobody who takes over
			n.Restart()
		}
	case FaultSlowDisk:
		n.SlowDisk(upTo(r, 500*time.Millisecond))
		time.Sleep(d)
		n.SlowDisk(0)
	case FaultHungDisk:
		n.HangDisk(true)
		time.Sleep(d)
		n.HangDisk(false)
	case FaultDrift:
		n.mu.Lock()
		bound := n.drift / 2 // of two clocks
		n.mu.Unlock()
		n.Drift(1 + bound*(2*r.Float64()-1))
	case FaultGossip:
		n.CutGossip()
		time.Sleep(d)
		s.Heal()
	case FaultRaft:
		n.CutRaft()
		time.Sleep(d)
		s.Heal()
	case FaultMove:
		if !s.opts.Diskless { // what ends is gone
			s.move(n, d)
		}
	case FaultLeave, FaultRoll:
		if s.whole() > 0 {
			s.depart(r, what, d)
		}
	case FaultRevoke:
		s.revoke(n, s.nodes[r.IntN(len(s.nodes))])
	}
}

// move gives a node that is cut off another machine, with its address and a copy of its disk.
// Nothing there proves that the former process is dead: its leases run out by their TTL.
func (s *Sim) move(n *Node, d time.Duration) {
	n.Isolate()
	time.Sleep(d)
	backup := n.Backup()
	n.Kill()
	n.Restore(backup)
	n.Rejoin()
	n.Open()
}

func (s *Sim) revoke(n, operator *Node) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.fault("an operator revokes node %d", n.i)
	if err := operator.Cluster().RevokeNode(ctx, n.Cluster().ID(), "the nemesis"); err != nil {
		s.note("the revocation: %v", err)
	}
}

func (s *Sim) breakNetwork(r *rand.Rand, what Fault, n *Node) {
	var others []int
	for i := range s.nodes {
		if i != n.i {
			others = append(others, i)
		}
	}
	switch what {
	case FaultPartition:
		all := r.Perm(len(s.nodes))
		k := r.IntN(len(all) + 1)
		s.Partition(all[:k], all[k:])
	case FaultCut:
		deaf := r.IntN(2) == 0
		for _, i := range others {
			if deaf {
				s.Cut(i, n.i)
			} else {
				s.Cut(n.i, i)
			}
		}
	case FaultNetwork, FaultLarge:
		f := transport.Faults{Large: largeMax}
		if what == FaultNetwork {
			f = transport.Faults{
				Drop: r.Float64() * 0.5, Duplicate: r.Float64() * 0.3, Reorder: r.Float64() * 0.3,
				Delay: upTo(r, 100*time.Millisecond), Jitter: upTo(r, 300*time.Millisecond),
			}
		}
		for _, i := range others {
			s.Faults(n.i, i, f)
			s.Faults(i, n.i, f)
		}
	}
}

func (s *Sim) blackout() {
	done := make(chan struct{})
	for _, n := range s.nodes {
		go func() {
			n.Crash()
			done <- struct{}{}
		}()
	}
	for range s.nodes {
		<-done
	}
}

func (s *Sim) spare() bool { return s.whole() > 2 }

func (s *Sim) whole() int {
	var voters []holdfast.Replica
	var ready []string
	for _, o := range s.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if o.Cluster().Ready(ctx) == nil {
			ready = append(ready, o.Cluster().ID())
			voters = o.Cluster().Status().Voters
		}
		cancel()
	}
	if slices.ContainsFunc(voters, func(r holdfast.Replica) bool { return !slices.Contains(ready, r.ID) }) {
		return 0
	}
	return len(voters)
}
