package client_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
)

const service = 50 * time.Millisecond // between two looks whether a client is served

// zoned is a fleet of three zones, the first two of whose nodes are near the client. It is in virtual time.
func zoned(t *testing.T, cfg client.Roaming, change func(*clienttest.Fleet)) (*clienttest.Fleet, *client.Roamer) {
	t.Helper()
	f := clienttest.NewFleet(5)
	for i, zone := range []string{"z", "z", "x", "x", "y"} {
		f.Places[i].Zone = zone
	}
	change(f)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	cfg.Zone = "z"
	r, stop, err := f.Roam(cfg, f.Places[2].Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return f, r
}

// unserved looks at a client for a while, and returns the longest time in which no replica with a raft leader
// served it.
func unserved(r *client.Roamer, during time.Duration) (longest time.Duration) {
	now := time.Duration(0)
	for began := time.Now(); time.Since(began) < during; {
		time.Sleep(service)
		now += service
		if r.Missing() == "" {
			now = 0
		}
		longest = max(longest, now)
	}
	return longest
}

func served(at []*clienttest.Place) (clients int) {
	for _, p := range at {
		clients += p.Server.Clients()
	}
	return clients
}

// The link between two zones broke, and a third one reached both. A client in the zone without a raft leader went
// back and forth between the two replicas there, each of which took it in and sent it away three seconds later. A far
// one was never tried, and its leases ended.
func TestAClientWhoseNearReplicasHearNoRaftLeaderIsServedByAFarOne(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"one link is cut": false, "the zone is cut off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, r := zoned(t, client.Roaming{}, func(f *clienttest.Fleet) {
					for _, p := range f.Places[:2] { // its gossip loses those that do hear the raft leader
						p.Sees = func(other *clienttest.Place) bool { return !cut || !p.Unled.Load() || other.Zone == "z" }
					}
				})
				time.Sleep(time.Minute)
				if served(f.Places[:2]) != 1 {
					t.Fatal("the client is on no near replica")
				}
				for _, p := range f.Places[:2] {
					p.Unled.Store(true)
				}
				if longest := unserved(r, 10*time.Second); longest > 4*time.Second {
					t.Errorf("not served for %v", longest)
				}
				// Once a minute it looks whether the near ones serve again.
				if longest := unserved(r, 10*time.Minute); longest > 300*time.Millisecond {
					t.Errorf("not served for %v by then", longest)
				}
				if served(f.Places[:2]) != 0 {
					t.Error("it is on a near replica, which does not serve")
				}
				for _, p := range f.Places[:2] {
					p.Unled.Store(false)
				}
				if longest := unserved(r, 2*time.Minute+time.Second); longest > 300*time.Millisecond || served(f.Places[:2]) != 1 {
					t.Errorf("two minutes after the end of the fault: not served for %v, at %d near replicas", longest, served(f.Places[:2]))
				}
			})
		})
	}
}

// Where no replica hears a raft leader a client stays at each for a while: it may list, or write a backup.
func TestAClientDoesNotHastenFromOneToTheNextWhereNoneHearsARaftLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32
		f, _ := zoned(t, client.Roaming{Changed: func() { changes.Add(1) }}, func(*clienttest.Fleet) {})
		time.Sleep(time.Minute)
		for _, p := range f.Places[:2] {
			p.Unled.Store(true)
		}
		time.Sleep(10 * time.Second)
		for began := time.Now(); served(f.Places[2:]) > 0; { // until it sees whether the near ones serve again
			if time.Sleep(time.Millisecond); time.Since(began) > 2*time.Minute {
				t.Fatal("it stays far away")
			}
		}
		for _, p := range f.Places {
			p.Unled.Store(true)
		}
		changes.Store(0)
		time.Sleep(5 * time.Minute)
		if n := changes.Load(); n < 100 || n > 220 { // two for each stay of three seconds
			t.Errorf("%d changes", n)
		}
	})
}
