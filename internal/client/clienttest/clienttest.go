// Package clienttest has a client for tests, on a replica that is a machine in memory
// (internal/seam/seamtest): the protocol between them is the product's, over a network in memory.
package clienttest

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/transport"
)

// Cluster is the name of the fleet.
const Cluster = "test"

// Replica serves clients of a group in memory.
type Replica struct {
	Group   *seamtest.Group
	Server  *serve.Server
	Network *transport.Memory
	Addr    string
	MaxTTL  time.Duration // of its clients
	Ill     atomic.Bool
	Unled   atomic.Bool        // it hears no raft leader
	Times   *expiry.IndexTimes // of all that serve, one after the other, at its addresses

	now      func() lease.Instant
	deaths   deaths
	serves   atomic.Pointer[serve.Server] // Server, for what the group tells
	node     seam.Node
	endpoint transport.Endpoint
	cancel   context.CancelFunc
	end      func() // waits until the Server serves nobody
	running  sync.WaitGroup
}

// addrs are where replicas serve.
func addrs() []string { return []string{"10.0.0.1:1", "10.0.0.2:1"} }

// New starts a replica of a group on a network.
func New(network *transport.Memory, group *seamtest.Group) (*Replica, error) {
	return start(&Replica{Group: group, Network: network})
}

func start(r *Replica) (*Replica, error) {
	r.Times, r.now = new(expiry.IndexTimes), clock.System().Now
	r.node = seamtest.NewNode(r.Group, "replica", slog.New(slog.DiscardHandler))(nobody{})
	if err := r.node.Open(context.Background()); err != nil {
		return nil, err
	}
	if err := r.Start(addrs()[0]); err != nil {
		return nil, err
	}
	r.Group.Follow(0, follower{r})
	return r, nil
}

// Start serves at an address, also of a replica that was stopped. The state is the same.
func (r *Replica) Start(addr string) (err error) {
	if r.endpoint, err = r.Network.Listen(context.Background(), addr, transport.Options{}); err != nil {
		return err
	}
	r.Addr = addr
	r.Server = serve.New(serve.Config{
		Cluster: Cluster, Self: fsm.Process{Node: fsm.Node{1}, Incarnation: 1}, Group: mortal{r.Group, r}, Node: r.node, Complete: r.node.Ready,
		Peers: func() []string { return nil }, GroupID: r.groupID, Well: func() bool { return !r.Ill.Load() }, Led: func() bool { return !r.Unled.Load() }, Logger: slog.New(slog.DiscardHandler),
		Times: r.Times, Now: r.now,
	})
	r.serves.Store(r.Server)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	server := r.Server
	stop := r.endpoint.Handle(transport.KindClient, func(conn net.Conn) { server.Serve(ctx, conn) })
	r.end = sync.OnceFunc(func() {
		stop()
		server.Close()
	})
	return nil
}

func (r *Replica) groupID() [16]byte {
	state, err := seam.Ask(context.Background(), r.Group, seam.Now, fsm.QueryGroup{})
	if err != nil {
		return [16]byte{}
	}
	return state.Cluster
}

// Stop serves no more.
func (r *Replica) Stop() {
	r.cancel()
	r.end()
	r.running.Wait()
	_ = r.endpoint.Close()
}

// Close ends the replica, also one that was stopped.
func (r *Replica) Close() {
	r.deaths.end()
	r.Stop()
	r.node.Close()
}

// Client returns what makes a client of the replica, for simenv.Env.Node.
func (r *Replica) Client(name string, log *slog.Logger) func(seam.Listener) seam.Node {
	return func(l seam.Listener) seam.Node {
		n, err := client.New(client.Config{
			Cluster: Cluster, Name: name, Bind: name + ":0", Join: addrs(), Network: r.Network, Logger: log, Listener: l,
			Resolver: net.DefaultResolver, MaxTTL: r.MaxTTL,
		})
		if err != nil {
			panic(err)
		}
		return n
	}
}

// follower passes on what the group tells.
type follower struct{ r *Replica }

func (f follower) Applied(events []fsm.Event) { f.r.serves.Load().Applied(events) }

func (follower) Ages(iter.Seq2[uint64, time.Duration]) {}

func (f follower) Gap(last uint64, _ func(fsm.Question) (fsm.Answer, error)) {
	f.r.serves.Load().Skipped(last)
}

// nobody is above the replica.
type nobody struct{}

func (nobody) Identified(fsm.SessionID, *slog.Logger) {}
func (nobody) LeaderChanged(string)                   {}
func (nobody) Expired(fsm.SessionID, time.Duration)   {}
func (nobody) Ill(bool, string)                       {}
func (nobody) Quorum(bool, []string)                  {}
func (nobody) Foreign(string, []string)               {}
func (nobody) GroupYielded()                          {}
func (nobody) ReplicaReplaced()                       {}
func (nobody) EndLeases(error) int                    { return 0 }
func (nobody) Empty() bool                            { return true }
func (nobody) Stopping(error)                         {}
func (nobody) Stopped()                               {}
