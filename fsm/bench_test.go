package fsm

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// held is a machine in which one session holds n locks, and the log index it has reached.
func held(tb testing.TB, n int, name func(int) string) (*Machine, *uint64, SessionID) {
	tb.Helper()
	m, index := New(), new(uint64)
	id := SessionID{Node: Node{1}, Incarnation: 1, Number: 1}
	run := func(c Command) {
		*index++
		if o, _ := m.Apply(*index, Encode(c)); o.Code != CodeOK && o.Code != CodeGranted {
			tb.Fatalf("%T: %v", c, o.Code)
		}
	}
	run(Birth{Cluster: [16]byte{1}})
	run(Serve{})
	run(Hello{Node: id.Node, Incarnation: 1, Name: "n1"})
	for i := range n {
		r := uint64(i + 1)
		run(Acquire{Session: id, TTL: time.Second, Request: r, Acked: r, Name: name(i)})
	}
	return m, index, id
}

const million = 1_000_000

// inOrder names come as a counter or a time stamp makes them.
func inOrder(i int) string { return fmt.Sprintf("orders/%010d", i) }

// scattered names come as hashes and random ids do: each is far from the one before.
func scattered(i int) string { return fmt.Sprintf("orders/%08x", uint32(i)*2654435761) }

func BenchmarkAcquireWithAMillionHeld(b *testing.B) {
	b.Run("in order", func(b *testing.B) { benchmarkAcquire(b, inOrder) })
	b.Run("scattered", func(b *testing.B) { benchmarkAcquire(b, scattered) })
}

func benchmarkAcquire(b *testing.B, name func(int) string) {
	m, index, id := held(b, million, name)
	cmds := make([][]byte, b.N)
	for i := range cmds {
		r := uint64(million + i + 1)
		cmds[i] = Encode(Acquire{Session: id, Request: r, Acked: r, Name: name(million + i)})
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for _, cmd := range cmds {
		*index++
		if o, _ := m.Apply(*index, cmd); o.Code != CodeGranted {
			b.Fatal(o.Code)
		}
	}
}

func BenchmarkReleaseWithAMillionHeld(b *testing.B) {
	b.Run("in order", func(b *testing.B) { benchmarkRelease(b, inOrder) })
	b.Run("scattered", func(b *testing.B) { benchmarkRelease(b, scattered) })
}

func benchmarkRelease(b *testing.B, name func(int) string) {
	m, index, id := held(b, million+b.N, name)
	cmds := make([][]byte, b.N)
	for i := range cmds {
		g := Grant{Name: name(i), Token: uint64(i + 1)}
		cmds[i] = Encode(Release{Session: id, Acked: uint64(million + b.N + 1), Grants: []Grant{g}})
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for _, cmd := range cmds {
		*index++
		if o, _ := m.Apply(*index, cmd); o.Code != CodeOK {
			b.Fatal(o.Code)
		}
	}
}

// One lock is acquired and released again and again, with ten thousand waiters of which each is granted
// in its turn and comes back.
func BenchmarkHandOverAmongTenThousandWaiters(b *testing.B) {
	m, index, id := held(b, 0, inOrder)
	const waiters = 10_000
	apply := func(c Command) Outcome {
		*index++
		o, _ := m.Apply(*index, Encode(c))
		return o
	}
	for i := range waiters {
		apply(Acquire{Session: id, TTL: time.Second, Request: uint64(i + 1), Name: "hot", Wait: true})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		apply(Release{Session: id, Grants: []Grant{{"hot", uint64(i + 1)}}})
		apply(Acquire{Session: id, Request: uint64(waiters + i + 1), Name: "hot", Wait: true})
	}
}

func BenchmarkForkWithAMillionHeld(b *testing.B) {
	m, _, _ := held(b, million, scattered)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		m.Fork()
	}
}

// A snapshot of a million locks is written while commands go on; the metrics are what an apply costs
// meanwhile.
func BenchmarkSnapshotOfAMillionWhileApplying(b *testing.B) {
	m, index, id := held(b, million, scattered)
	var applied, worst, spent time.Duration
	size := new(counter)
	b.ResetTimer()
	for range b.N {
		fork, done := m.Fork(), make(chan error, 1)
		go func() { done <- fork.WriteSnapshot(size, nil) }()
		for writing := true; writing; {
			select {
			case err := <-done:
				if err != nil {
					b.Fatal(err)
				}
				writing = false
			default:
			}
			r := *index
			cmd := Encode(Acquire{Session: id, Request: r, Acked: r, Name: scattered(int(r))})
			begin := time.Now()
			*index++
			m.Apply(*index, cmd)
			took := time.Since(begin)
			spent, worst, applied = spent+took, max(worst, took), applied+1
		}
	}
	b.ReportMetric(float64(spent)/float64(applied), "ns/apply")
	b.ReportMetric(float64(worst), "ns-worst-apply")
	b.ReportMetric(float64(*size)/float64(b.N), "B/snapshot")
}

type counter int

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

func BenchmarkReadSnapshotOfAMillion(b *testing.B) {
	saved := func() []byte { m, _, _ := held(b, million, scattered); return snapshot(m) }()
	for b.Loop() {
		if _, err := ReadSnapshot(bytes.NewReader(saved)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryOfAMillionHeld(b *testing.B) {
	for b.Loop() {
		before := heap()
		m, _, _ := held(b, million, scattered)
		b.ReportMetric(float64(heap()-before)/million, "B/lock")
		runtime.KeepAlive(m)
	}
}

func BenchmarkMemoryOfAHundredThousandWaiters(b *testing.B) {
	for b.Loop() {
		m, index, id := held(b, 0, inOrder)
		before := heap()
		const waiters = 100_000
		for i := range waiters {
			*index++
			m.Apply(*index, Encode(Acquire{Session: id, TTL: time.Second, Request: uint64(i + 1), Name: "hot", Wait: true}))
		}
		b.ReportMetric(float64(heap()-before)/waiters, "B/waiter")
		runtime.KeepAlive(m)
	}
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
