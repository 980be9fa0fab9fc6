package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
)

// Contestants.
const (
	kindHoldfast = "holdfast"
	kindEngine   = "engine"  // dragonboat alone: an empty state machine, the same settings, one fsync for each commit
	kindClient   = "client"  // a node of Holdfast without a replica
	kindNothing  = "nothing" // a program that links Holdfast, and does not use it
)

// startup says how a child begins. Peers is a file that a fleet of Holdfast joins through; Addrs
// are the raft addresses of the engine's replicas, of which this is number Index, or the address that
// a client joins at.
type startup struct {
	Kind, DataDir, Peers string
	Addrs                []string
	Index, Voters        int
	Unnamed              bool            // its address does not get into Peers
	Timing               holdfast.Timing // of Raft; what is 0 is the default
}

type contestant interface {
	ready(ctx context.Context) error
	// operation returns what one caller does over and over.
	operation(what string, caller int) (func(context.Context) error, error)
	role() (name string, term uint64)
	Close() error
}

// Roles of a process.
const (
	roleLeader   = "raft-leader"
	roleFollower = "follower"
	roleStandby  = "standby"
	roleClient   = "client"
)

// What callers do.
const (
	opPair   = "pair"   // Holdfast: acquire and release a name of the caller's own
	opVerify = "verify" // Holdfast: a linearizable look at a token
	opWrite  = "write"  // the engine: one proposal
	opRead   = "read"   // the engine: one ReadIndex
)

func start(s startup) (contestant, error) {
	switch s.Kind {
	case kindHoldfast:
		return startHoldfast(context.Background(), s)
	case kindEngine:
		return startEngine(s)
	case kindClient:
		c, err := holdfast.Open(context.Background(), holdfast.Config{ClientOnly: true, Join: s.Addrs, Logger: quiet()})
		return &node{Cluster: c}, err
	case kindNothing:
		return nothing{}, nil
	}
	return nil, fmt.Errorf("no contestant %q", s.Kind)
}

// nothing is a contestant that does nothing.
type nothing struct{}

func (nothing) ready(context.Context) error { return nil }
func (nothing) role() (string, uint64)      { return "", 0 }
func (nothing) Close() error                { return nil }

func (nothing) operation(what string, _ int) (func(context.Context) error, error) {
	return nil, fmt.Errorf("nothing does no %s", what)
}

type node struct {
	*holdfast.Cluster
	mu     sync.Mutex
	leases []*holdfast.Lease
}

func startHoldfast(ctx context.Context, s startup) (*node, error) {
	cfg := holdfast.Config{DataDir: s.DataDir, Logger: quiet(), Timing: s.Timing, Replicas: scaleReplicas}
	if s.Peers != "" {
		cfg.Join, cfg.Bootstrap = []string{"file+" + s.Peers}, s.Voters
		if s.Index >= s.Voters {
			cfg.Bootstrap = -1
		}
	}
	c, err := holdfast.Open(ctx, cfg)
	if err != nil || s.Peers == "" || s.Unnamed {
		return &node{Cluster: c}, err
	}
	return &node{Cluster: c}, process.AppendLine(s.Peers, c.Addr())
}

// quiet lets errors through alone: warnings are expected where processes are killed.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (n *node) ready(ctx context.Context) error { return n.Ready(ctx) }

func (n *node) role() (name string, term uint64) {
	st := n.Status()
	switch {
	case st.RaftLeader == st.ID:
		return roleLeader, st.Term
	case st.Role == holdfast.RoleVoter:
		return roleFollower, st.Term
	case st.Role == holdfast.RoleStandby:
		return roleStandby, st.Term
	case st.Role == holdfast.RoleClient:
		return roleClient, st.Term
	}
	return "", st.Term
}

func (n *node) operation(what string, caller int) (func(context.Context) error, error) {
	name := "bench/" + n.ID()[:8] + "/" + strconv.Itoa(caller)
	switch what {
	case opPair:
		return func(ctx context.Context) error {
			l, err := n.Acquire(ctx, name)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}, nil
	case opVerify:
		l, err := n.Acquire(context.Background(), name+"/verify/"+strconv.FormatInt(time.Now().UnixNano(), 10))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return n.Verify(ctx, l.Name(), l.Token()) }, nil
	}
	return nil, fmt.Errorf("holdfast does no %s", what)
}

// lost is how many of the locks that it was told to hold it holds no more.
func (n *node) lost() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.leases {
		if !l.Valid() {
			count++
		}
	}
	return count
}

func (n *node) hold(ctx context.Context, count int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	const callers = 256
	var work sync.WaitGroup
	errs := make(chan error, callers)
	var mu sync.Mutex
	have := len(n.leases)
	for i := range min(callers, count-have) {
		work.Go(func() {
			for k := have + i; k < count; k += callers {
				l, err := n.Acquire(ctx, fmt.Sprintf("bench/held/%s/%d", n.ID()[:8], k))
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				n.leases = append(n.leases, l)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	close(errs)
	return <-errs
}

// turn is one holder's turn with a contended lock. Times are unix nanoseconds of the machine's
// clock.
type turn struct {
	Token                     uint64
	Asked, Granted, GivenBack int64
}

// contend takes a lock that others want, again and again, and keeps it for hold each time.
func (n *node) contend(ctx context.Context, name string, span, hold time.Duration, callers int) ([]turn, error) {
	var work sync.WaitGroup
	var mu sync.Mutex
	var all []turn
	errs := make(chan error, callers)
	end := time.Now().Add(span)
	for range callers {
		work.Go(func() {
			for time.Now().Before(end) {
				asked := time.Now().UnixNano()
				l, err := n.Acquire(ctx, name)
				granted := time.Now().UnixNano()
				if err == nil {
					if hold > 0 {
						time.Sleep(hold)
					}
					mu.Lock()
					all = append(all, turn{uint64(l.Token()), asked, granted, time.Now().UnixNano()})
					mu.Unlock()
					err = l.Release(ctx)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	work.Wait()
	close(errs)
	return all, <-errs
}
