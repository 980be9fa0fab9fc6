package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// slowPeers is a directory whose writes of peers wait for a channel, and are counted.
type slowPeers struct {
	datadir.Dir
	hang  chan struct{}
	wrote int
}

func (s *slowPeers) SavePeers(peers []datadir.Peer) error {
	s.wrote++
	if s.hang != nil {
		<-s.hang
	}
	return s.Dir.SavePeers(peers)
}

// pairOn opens two nodes, the first on such a directory.
func pairOn(t *testing.T, hang chan struct{}) (*slowPeers, []*Node) {
	dir, err := datadir.OpenFS(vfs.NewMem(), "/data", "test", fsm.Place{})
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowPeers{Dir: dir, hang: hang}
	network := transport.NewMemory(1)
	a := opened(t, &heard{}, Config{Bind: "10.0.0.1:7643", Bootstrap: 2, Name: "first", Env: simenv.Env{Network: network, Dir: slow}})
	b := opened(t, &heard{}, Config{Bind: "10.0.0.2:7643", Bootstrap: 2, Name: "second", Join: []string{"10.0.0.1"}, Env: simenv.Env{Network: network}})
	ready(t, a, b)
	return slow, []*Node{a, b}
}

func TestANodeSavesWhereTheOthersAreAndRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, nodes := pairOn(t, nil)
		time.Sleep(3 * time.Minute)
		want := []datadir.Peer{{Node: nodes[1].ID(), Name: "second", Addr: "10.0.0.2:7643"}}
		if got := slow.Peers(); !slices.Equal(got, want) {
			t.Errorf("saved %v, want %v", got, want)
		}
		if slow.wrote > 2 {
			t.Errorf("wrote %d times while nothing changed", slow.wrote)
		}
		nodes[1].Close() // its memory goes with it, and its replica
		time.Sleep(2 * time.Minute)
		if got := slow.Peers(); len(got) != 0 {
			t.Errorf("%v is still saved of a node that has left", got)
		}
		nodes[0].Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// A client that was cut off for long saved that there is no other node. Started again with a Join that leads
// nowhere, it could not find the fleet that it had seen for days.
func TestAClientThatIsCutOffKeepsTheAddressesOfItsFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, client := beyond(t, datadir.Memory())
		network := client.cfg.Env.Network.(*transport.Memory)
		another := opened(t, &heard{}, Config{
			Bind: "10.0.0.6:7643", Replicas: 4, Join: client.cfg.Join, Env: simenv.Env{Network: network, Dir: datadir.Memory()},
		})
		ctx := ready(t, another)
		if err := nodes[3].Leave(ctx); err != nil { // one of the clients takes its place
			t.Fatal(err)
		}
		time.Sleep(2 * knownEvery)
		if !client.asClient.serves() {
			client, another = another, client
		}
		places := func() (addrs []string) {
			for _, p := range client.dir.Peers() {
				addrs = append(addrs, p.Addr)
			}
			slices.Sort(addrs)
			return addrs
		}
		before := places()
		if len(before) != 4 || slices.Contains(before, nodes[3].Addr()) {
			t.Errorf("before the cut %q are saved", before)
		}
		network.Isolate(client.Addr())
		time.Sleep(5 * time.Minute)
		if now := places(); !client.asClient.hangs.Load() || !slices.Equal(now, before) {
			t.Errorf("after the cut %q are saved, and were %q", now, before)
		}
		network.Heal()
		for _, n := range append(nodes, another, client) {
			n.Close()
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// The addresses that are saved are few. Those of a large fleet's clients took the places of its replicas.
func TestTheAddressesOfTheGroupComeBeforeThoseOfClients(t *testing.T) {
	t.Parallel()
	var members []membership.Member
	for i := range 3 * datadir.PeersMax {
		members = append(members, membership.Member{Meta: membership.Meta{Node: fmt.Sprintf("n-%03d", i)}, Addr: fmt.Sprint("10.0.0.1:", i), State: membership.Alive})
	}
	last := members[len(members)-1]
	peers := lastPlaces(nil, members, map[string]bool{last.Node: true}, false)
	if len(peers) != datadir.PeersMax || peers[0].Node != last.Node {
		t.Errorf("%d addresses, the first of %s", len(peers), peers[0].Node)
	}
}

// An address is no reason to hold up anything.
func TestADiskThatHangsAtTheAddressesDelaysNothingButALittleOfClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		slow, nodes := pairOn(t, hang)
		time.Sleep(3 * time.Minute)
		if slow.wrote != 1 {
			t.Errorf("%d writes wait for the disk", slow.wrote)
		}
		ready(t, nodes...)
		begin := time.Now()
		nodes[0].Close()
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
		nodes[1].Close()
		close(hang)
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// hangingIdentity is a directory whose writes of the identity wait for a channel from now on.
type hangingIdentity struct {
	datadir.Dir
	hang atomic.Pointer[chan struct{}]
}

func (h *hangingIdentity) Save(id datadir.Identity) error {
	if hang := h.hang.Load(); hang != nil {
		<-*hang
	}
	return h.Dir.Save(id)
}

// The disk of a founder hung at its vote: the log said nothing at all, and the status that all of the nodes
// had met.
func TestADiskThatHangsWhileAGroupFormsIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		sick, network := &hangingIdentity{Dir: datadir.Memory()}, transport.NewMemory(1)
		sick.hang.Store(&hang)
		lines := &lines{}
		var nodes []*Node
		for i := range 3 {
			cfg := Config{Bind: fmt.Sprintf("10.0.0.%d:7643", i+1), Bootstrap: 3, Name: fmt.Sprint("node-", i), Join: []string{"10.0.0.1"}, Env: simenv.Env{Network: network}}
			if i == 2 {
				cfg.Env.Dir, cfg.Logger = sick, lines.logger()
			}
			nodes = append(nodes, opened(t, &heard{}, cfg))
		}
		time.Sleep(30 * time.Second)
		if waits := nodes[2].Status().Waits; !strings.Contains(waits, "the disk has not finished a write for ") || strings.Contains(waits, "have met") {
			t.Errorf("it waits for %q", waits)
		}
		if waits := nodes[0].Status().Waits; strings.Contains(waits, "disk") {
			t.Errorf("another waits for %q", waits)
		}
		if told := lines.String(); strings.Count(told, "the disk has not finished a write to the data directory") != 1 {
			t.Errorf("the log says %q", told)
		}
		sick.hang.Store(nil)
		close(hang)
		ready(t, nodes...)
		if waits := nodes[2].Missing(); waits != "" {
			t.Errorf("it is ready, and waits for %q", waits)
		}
	})
}

// An operator ends the node of a disk that hangs. The group has it out, and its identity is to say so:
// Leave waited for the disk, whatever its context, and Close for Leave.
func TestADiskThatHangsAtTheIdentityHoldsUpNeitherLeaveNorClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, err := datadir.OpenFS(vfs.NewMem(), "/data", "test", fsm.Place{})
		if err != nil {
			t.Fatal(err)
		}
		sick, network := &hangingIdentity{Dir: dir}, transport.NewMemory(1)
		var nodes []*Node
		for i := range 3 {
			cfg := Config{Bind: fmt.Sprintf("10.0.0.%d:7643", i+1), Bootstrap: 3, Name: fmt.Sprint("node-", i), Join: []string{"10.0.0.1"}, Env: simenv.Env{Network: network}}
			if i == 2 {
				cfg.Env.Dir = sick
			}
			nodes = append(nodes, opened(t, &heard{}, cfg))
		}
		ready(t, nodes...)
		time.Sleep(time.Minute)
		hang := make(chan struct{})
		sick.hang.Store(&hang)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		if err := nodes[2].Leave(ctx); !errors.Is(err, errDiskHangs) {
			t.Errorf("Leave: %v", err)
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("Leave, which closes the node, took %v", took)
		}
		nodes[0].Close()
		nodes[1].Close()
		close(hang)
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}
