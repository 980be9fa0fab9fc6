package holdfast_test

import (
	"strconv"
	"sync/atomic"
	"testing"

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

// BenchmarkAcquireRelease is one caller of a single node in memory: what Holdfast costs without disk and network.
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

// BenchmarkHandOver is a lock that three callers for each processor want: the time from one holder to the next.
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
