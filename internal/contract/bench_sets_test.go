package contract_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSingleBesideSets is what four callers of single locks, each with a lock of its own, wait
// for a pair while others acquire and release sets of 64 names of their own: nobody wants what
// another has. p99-ms is of the single callers. With none and with 20 callers of sets it is the
// calm value for 300.
func BenchmarkSingleBesideSets(b *testing.B) {
	for _, sets := range []int{0, 20, 300} {
		b.Run(strconv.Itoa(sets), func(b *testing.B) {
			c := single(b)
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			var served atomic.Int64
			for i := range sets {
				names := make([]string, 64)
				for k := range names {
					names[k] = fmt.Sprintf("{%d}/%d", i, k)
				}
				all.Go(func() {
					for ctx.Err() == nil {
						l, err := c.AcquireAll(ctx, names)
						if err == nil {
							err = l.Release(ctx)
						}
						if err != nil && ctx.Err() == nil {
							b.Error(err)
						}
						served.Add(1)
					}
				})
			}
			defer all.Wait()
			defer cancel()
			var mu sync.Mutex
			var took []time.Duration
			var singles sync.WaitGroup
			b.ResetTimer()
			before := served.Load()
			for i := range 4 {
				singles.Go(func() {
					for range b.N {
						began := time.Now()
						acquireRelease(b, c, fmt.Sprint("single ", i))
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			singles.Wait()
			b.StopTimer()
			b.ReportMetric(float64(served.Load()-before)/b.Elapsed().Seconds(), "sets/s")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1e3, "max-ms")
		})
	}
}
