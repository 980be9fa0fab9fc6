package consensus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/transport"
)

// Found by reading, 2026-11-27: heartbeats that confirm reads go to voters alone. Under reads without a pause a
// standby and the raft leader did not hear each other, so the standby served nobody, and took no dead voter's
// place.
func TestAStandbyAndTheRaftLeaderHearEachOtherUnderReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		first := leaderOf(t, group)
		standby := b.add(t, first, 4, vfs.NewMem())
		group = append(group, standby)
		b.network.(*transport.Memory).SetFaults("*", "*", transport.Faults{Delay: time.Millisecond, Jitter: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for n := range 16 {
			readers.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond / 4) // virtual: never all at once
				for ctx.Err() == nil {
					_ = others(group[:3], first)[n%2].Barrier(ctx)
				}
			})
		}
		time.Sleep(3 * time.Second)
		before := first.reached.Last()
		time.Sleep(time.Second)
		entries := first.reached.Last() - before
		there, here := standby.Heard()[first.cfg.Replica], first.Heard()[standby.cfg.Replica]
		if since := max(time.Since(there.At), time.Since(here.At)); since > time.Second || leaderOf(t, group) != first {
			t.Errorf("the standby heard the raft leader %v ago, and was heard %v ago", time.Since(there.At), time.Since(here.At))
		}
		if most := uint64(time.Second/(quietHeartbeats*first.cfg.Heartbeat)) + 1; entries > most {
			t.Errorf("%d entries a second, more than %d", entries, most)
		}
		cancel()
		readers.Wait()
		time.Sleep(first.cfg.Election)
		before = first.reached.Last()
		time.Sleep(time.Minute)
		if entries = first.reached.Last() - before; entries > 0 {
			t.Errorf("%d entries in a minute without reads", entries)
		}
	})
}
