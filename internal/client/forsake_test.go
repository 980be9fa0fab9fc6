package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
)

const former = 5 // nodes, with the replicas of the group that a client is of

// forsaking has a client on a fleet whose first nodes have its group, while Join leads to all. Then change happens to
// each. It returns how long after that the client gave its group up: 0 if it did not while it was looked at.
func forsaking(t *testing.T, nodes int, during time.Duration, change func(*clienttest.Place)) (*clienttest.Fleet, time.Duration) {
	t.Helper()
	f := clienttest.NewFleet(nodes)
	var join []string
	for i, p := range f.Places {
		p.Sees = func(other *clienttest.Place) bool { return p.Other.Load() == other.Other.Load() }
		p.Other.Store(i >= former)
		p.Ill.Store(i > former) // one of the other group has a replica
		join = append(join, p.Addr)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	gaveUp := make(chan struct{})
	r, stop, err := f.Roam(client.Roaming{Yielded: func() { close(gaveUp) }}, join...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	time.Sleep(10 * time.Second)
	if served(f.Places[:former]) != 1 {
		t.Fatalf("no replica of its group serves the client: %s", r.Reason())
	}
	for _, p := range f.Places {
		change(p)
	}
	began := time.Now()
	select {
	case <-gaveUp:
		return f, time.Since(began)
	case <-time.After(during):
		return f, 0
	}
}

// All replicas of a client's group refused it for a while, as their storage hung, and one node of another group of the
// same name was among the addresses of Join. It was asked last, so the client gave its group up after half a minute,
// and with it the leases.
func TestAClientKeepsItsGroupWhileReplicasOfItRefuseIt(t *testing.T) {
	t.Parallel()
	for name, vague := range map[string]bool{"of this version": false, "of an older version": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, after := forsaking(t, former+1, 2*time.Minute, func(p *clienttest.Place) {
					if !p.Other.Load() {
						p.Ill.Store(true)
						p.Vague.Store(vague)
					}
				})
				if after != 0 {
					t.Fatalf("its group is given up after %v", after)
				}
				for _, p := range f.Places[:former] {
					p.Ill.Store(false)
				}
				if time.Sleep(time.Second); served(f.Places[:former]) != 1 {
					t.Error("its group does not serve it")
				}
				for _, p := range f.Places[:former] {
					p.End()
				}
				if time.Sleep(45 * time.Second); served(f.Places[former:]) != 1 {
					t.Error("its group is gone, and it keeps it")
				}
			})
		})
	}
}

// After a restore Join leads to a fleet most of whose nodes have no replica. The last refusal of a round was
// seldom that of another group, and the client gave its own up after minutes.
func TestAClientGivesItsGroupUpWhereMostNodesOfTheNextHaveNoReplica(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(former bool, p *clienttest.Place){
		"elsewhere": func(former bool, p *clienttest.Place) {
			if former {
				p.End()
			}
		},
		"elsewhere, of an older version": func(former bool, p *clienttest.Place) {
			if p.Vague.Store(p.Ill.Load()); former {
				p.End()
			}
		},
		"at the same addresses": func(former bool, p *clienttest.Place) {
			if former {
				p.Other.Store(true)
				p.Ill.Store(true)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, after := forsaking(t, former+1+40, 10*time.Minute, func(p *clienttest.Place) { change(!p.Other.Load(), p) })
				if after < 30*time.Second || after > 32*time.Second {
					t.Errorf("its group is given up after %v", after)
				}
				if time.Sleep(10 * time.Second); served(f.Places[former:former+1]) != 1 {
					t.Error("the other group does not serve it")
				}
			})
		})
	}
}
