package contract_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// BenchmarkValid is the local look at a lease, which a holder may take before each of its writes.
func BenchmarkValid(b *testing.B) {
	l := acquire(b, single(b), "bench")
	b.ReportAllocs()
	for b.Loop() {
		if !l.Valid() {
			b.Fatal(l.Err())
		}
	}
}

// BenchmarkAcquireRelease is one caller of a single node in memory: what Holdfast costs without
// disk and network.
func BenchmarkAcquireRelease(b *testing.B) {
	c := single(b)
	b.ReportAllocs()
	for b.Loop() {
		acquireRelease(b, c, "bench")
	}
}

// BenchmarkAcquireReleaseByMany is 64 callers for each processor, on distinct names.
func BenchmarkAcquireReleaseByMany(b *testing.B) {
	c := single(b)
	var callers atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		name := "bench/" + strconv.FormatInt(callers.Add(1), 10)
		for pb.Next() {
			if !acquireRelease(b, c, name) {
				return
			}
		}
	})
}

// BenchmarkHandOver is a lock that three callers for each processor want: the time from one holder
// to the next.
func BenchmarkHandOver(b *testing.B) {
	c := single(b)
	b.ReportAllocs()
	b.SetParallelism(3) // for each processor
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !acquireRelease(b, c, "bench") {
				return
			}
		}
	})
}

// BenchmarkVerify is a linearizable look at a token.
func BenchmarkVerify(b *testing.B) {
	c := single(b)
	l := acquire(b, c, "bench")
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Verify(b.Context(), l.Name(), l.Token()); err != nil {
			b.Fatal(err)
		}
	}
}

// acquireRelease acquires and releases a lock. It answers false when that failed.
func acquireRelease(b *testing.B, c *holdfast.Cluster, name string) bool {
	l, err := c.Acquire(b.Context(), name)
	if err == nil {
		err = l.Release(b.Context())
	}
	if err != nil {
		b.Error(err)
	}
	return err == nil
}

// BenchmarkKinds is one use of each kind beside that of a plain lock. commits/op counts what the
// group applied: no kind costs more than the lock's two.
func BenchmarkKinds(b *testing.B) {
	for _, kind := range []struct {
		name string
		use  func(c *holdfast.Cluster, i int) error
	}{
		{"lock", func(c *holdfast.Cluster, _ int) error { return c.Do(b.Context(), "bench", nothing) }},
		{"shared", func(c *holdfast.Cluster, _ int) error {
			return c.Do(b.Context(), "bench", nothing, holdfast.WithShared())
		}},
		{"permit", func(c *holdfast.Cluster, _ int) error {
			return c.Do(b.Context(), "bench", nothing, holdfast.WithLimit(10))
		}},
		{"election", func(c *holdfast.Cluster, _ int) error {
			return c.Lead(b.Context(), "bench", nothing, holdfast.WithValue([]byte("10.0.0.7:80")))
		}},
		{"once", func(c *holdfast.Cluster, i int) error {
			_, err := c.Once(b.Context(), strconv.Itoa(i), nothing)
			return err
		}},
		{"once, finished before", func(c *holdfast.Cluster, _ int) error {
			_, err := c.Once(b.Context(), "again", nothing)
			return err
		}},
		{"set of 3", func(c *holdfast.Cluster, _ int) error {
			l, err := c.AcquireAll(b.Context(), []string{"{t}1", "{t}2", "{t}3"})
			if err != nil {
				return err
			}
			return l.Release(b.Context())
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			c := single(b)
			if err := kind.use(c, -1); err != nil { // opens the session
				b.Fatal(err)
			}
			before, i := c.Status().Applied, 0
			b.ReportAllocs()
			for b.Loop() {
				if err := kind.use(c, i); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(c.Status().Applied-before)/float64(i), "commits/op")
		})
	}
}

// BenchmarkStart is a fleet that starts with empty directories: from the first Open until each node
// has acquired a lock (locks-ms), and until each is ready (ready-ms).
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{3, 10} {
		b.Run(strconv.Itoa(n)+" nodes", func(b *testing.B) {
			var locks, ready time.Duration
			for b.Loop() {
				begun := time.Now()
				list := fleet(b, n, func(_ int, cfg *holdfast.Config) { cfg.DataDir = b.TempDir() })
				var all sync.WaitGroup
				for i, c := range list {
					all.Go(func() { acquire(b, c, strconv.Itoa(i)) })
				}
				all.Wait()
				locks += time.Since(begun)
				allReady(b, list)
				ready += time.Since(begun)
				for _, c := range list {
					_ = c.Close()
				}
			}
			b.ReportMetric(float64(locks.Milliseconds())/float64(b.N), "locks-ms")
			b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ready-ms")
		})
	}
}
