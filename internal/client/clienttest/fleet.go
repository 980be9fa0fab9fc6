package clienttest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/transport"
)

// Place is a node of a Fleet, with a replica of the group {1}. What it is may be changed before Start, and the
// atomics at any time.
type Place struct {
	Addr, Zone string
	Sees       func(*Place) bool // of the other replicas; nil: all
	Ill        atomic.Bool
	Unled      atomic.Bool // it hears no raft leader
	Other      atomic.Bool // it is of the group {2}; that of its replica is for good
	Vague      atomic.Bool // it is of no group; or of any, and of an older version
	Server     *serve.Server

	end func()
}

// Fleet is of nodes that serve clients, without a log between them: those of a group have one state.
type Fleet struct {
	Places []*Place

	network *transport.Memory
	group   *seamtest.Group
	other   *seamtest.Group
	node    seam.Node
}

// NewFleet returns a fleet of so many nodes.
func NewFleet(nodes int) *Fleet {
	f := &Fleet{
		network: transport.NewMemory(1),
		group:   seamtest.New(clock.System().Now, fsm.Limits{}), other: seamtest.NewOf([16]byte{2}, clock.System().Now, fsm.Limits{}),
	}
	f.node = seamtest.NewNode(f.group, "replica", slog.New(slog.DiscardHandler))(nobody{})
	for i := range nodes {
		f.Places = append(f.Places, &Place{Addr: fmt.Sprintf("10.0.%d.%d:1", i/200, i%200+1)})
	}
	return f
}

// Start has all nodes serve.
func (f *Fleet) Start() error {
	if err := f.node.Open(context.Background()); err != nil {
		return err
	}
	for i, p := range f.Places {
		endpoint, err := f.network.Listen(context.Background(), p.Addr, transport.Options{})
		if err != nil {
			return err
		}
		group := f.group
		if p.Other.Load() {
			group = f.other
		}
		p.Server = serve.New(serve.Config{
			Cluster: Cluster, Self: fsm.Process{Node: fsm.Node{1, byte(i)}, Incarnation: 1}, Group: group, Node: placed{f.node, f, p},
			Complete: f.node.Ready, Peers: func() []string { return f.addrs(p) }, GroupID: p.groupID,
			Well: func() bool { return !p.Ill.Load() }, Led: func() bool { return !p.Unled.Load() },
			Logger: slog.New(slog.DiscardHandler), Times: new(expiry.IndexTimes), Now: clock.System().Now,
		})
		ctx, cancel := context.WithCancel(context.Background())
		stop := endpoint.Handle(transport.KindClient, func(conn net.Conn) { p.Server.Serve(ctx, conn) })
		p.end = sync.OnceFunc(func() {
			cancel()
			stop()
			p.Server.Close()
			_ = endpoint.Close()
		})
	}
	return nil
}

// End ends the node.
func (p *Place) End() { p.end() }

func (p *Place) groupID() [16]byte {
	switch {
	case p.Vague.Load():
		return [16]byte{}
	case p.Other.Load():
		return [16]byte{2}
	}
	return [16]byte{1}
}

// Close ends the fleet.
func (f *Fleet) Close() {
	for _, p := range f.Places {
		p.End()
	}
	f.node.Close()
}

// seen are the replicas that a node sees.
func (f *Fleet) seen(by *Place) (list []*Place) {
	for _, p := range f.Places {
		if p == by || by.Sees == nil || by.Sees(p) {
			list = append(list, p)
		}
	}
	return list
}

func (f *Fleet) addrs(by *Place) (list []string) {
	for _, p := range f.seen(by) {
		list = append(list, p.Addr)
	}
	return list
}

// placed is the node of a place.
type placed struct {
	seam.Node
	f *Fleet
	p *Place
}

// Status implements seam.Node.
func (n placed) Status() seam.Status {
	st := n.Node.Status()
	st.Fleet = seam.Fleet{}
	for _, p := range n.f.seen(n.p) {
		st.Members = append(st.Members, seam.Member{Node: p.Addr, Addr: p.Addr, Zone: p.Zone, State: member.Alive})
		st.Voters = append(st.Voters, seam.Replica{Node: p.Addr})
	}
	return st
}

// Roam runs a client of the group {1} until stop is called. cfg says what is special about it.
func (f *Fleet) Roam(cfg client.Roaming, join ...string) (r *client.Roamer, stop func(), err error) {
	endpoint, err := f.network.Listen(context.Background(), "client:0", transport.Options{})
	if err != nil {
		return nil, nil, err
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg.Cluster, cfg.Key, cfg.Process = Cluster, key, fsm.Process{Node: fsm.KeyNode(public), Incarnation: 1}
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		return endpoint.Dial(ctx, addr, transport.KindClient)
	}
	cfg.Find = func(context.Context) ([]string, error) { return slices.Clone(join), nil }
	cfg.Idle = func() bool { return false }
	cfg.Go = func(run func(context.Context)) bool { go run(ctx); return true }
	cfg.Logger = slog.New(slog.DiscardHandler)
	r = client.NewRoamer(nil)
	r.Configure(cfg)
	r.Resume([16]byte{1}, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return r, func() {
		cancel()
		<-done
		_ = endpoint.Close()
	}, nil
}
