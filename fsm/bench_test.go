package fsm

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
		if o, _ := m.Apply(*index, ProcessOf(c), Encode(c)); o.Code != CodeOK && o.Code != CodeGranted {
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
	b.Run("in order", func(b *testing.B) { benchmarkAcquire(b, inOrder, Quota{}) })
	b.Run("scattered", func(b *testing.B) { benchmarkAcquire(b, scattered, Quota{}) })
}

func benchmarkAcquire(b *testing.B, name func(int) string, q Quota) {
	m, index, id := held(b, million, name)
	if !q.empty() {
		m.quotas.Set(q)
	}
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
		if o, _ := m.Apply(*index, id.Process(), cmd); o.Code != CodeGranted {
			b.Fatal(o.Code)
		}
	}
}

// What a quota of a prefix costs an Acquire, beside a million locks of that prefix.
func BenchmarkAcquireUnderAQuota(b *testing.B) {
	for name, q := range map[string]Quota{"none": {}, "of a node": {Node: Node{1}, Locks: 1 << 30}, "of a prefix": {Prefix: "orders/", Locks: 1 << 30}} {
		b.Run(name, func(b *testing.B) { benchmarkAcquire(b, scattered, q) })
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
		if o, _ := m.Apply(*index, id.Process(), cmd); o.Code != CodeOK {
			b.Fatal(o.Code)
		}
	}
}

// One lock is acquired and released again and again, with ten thousand waiters of which each is
// granted in its turn and comes back.
func BenchmarkHandOverAmongTenThousandWaiters(b *testing.B) {
	m, index, id := held(b, 0, inOrder)
	const waiters = 10_000
	apply := func(c Command) Outcome {
		*index++
		o, _ := m.Apply(*index, ProcessOf(c), Encode(c))
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

// A snapshot of a million locks is written while commands go on.
func BenchmarkSnapshotOfAMillionWhileApplying(b *testing.B) {
	size := new(counter)
	besideApplies(b, func(m *Machine) error { return m.WriteSnapshot(size, nil) })
	b.ReportMetric(float64(*size)/float64(b.N), "B/snapshot")
}

// A million locks are listed while commands go on.
func BenchmarkLocksOfAMillionWhileApplying(b *testing.B) {
	besideApplies(b, func(m *Machine) error {
		n := 0
		for range m.Locks("orders/") {
			n++
		}
		if n < million {
			return fmt.Errorf("%d locks", n)
		}
		return nil
	})
}

// A replica that catches up reads a snapshot of a million locks, in the same process as another
// that goes on.
func BenchmarkReadSnapshotOfAMillionWhileApplying(b *testing.B) {
	var once sync.Once
	var saved []byte
	besideApplies(b, func(m *Machine) error {
		once.Do(func() { saved = snapshot(m) })
		_, err := ReadSnapshot(bytes.NewReader(saved))
		return err
	})
}

// besideApplies reads forks of a machine with a million locks; the metrics are what an apply costs
// meanwhile, and what it does when nothing is read. A load that never pauses is preempted by the scheduler, for
// a slice of 10 ms or two; that which a group has waits for its disk, as the paced one waits.
func besideApplies(b *testing.B, read func(*Machine) error) {
	m, index, id := held(b, million, scattered)
	apply := func() time.Duration {
		r := *index
		cmd := Encode(Acquire{Session: id, Request: r, Acked: r, Name: scattered(int(r))})
		begin := time.Now()
		*index++
		m.Apply(*index, id.Process(), cmd)
		return time.Since(begin)
	}
	var calm, busy, paced []time.Duration
	runtime.GC()
	for range 100_000 {
		calm = append(calm, apply())
	}
	beside := func(pause time.Duration) (took []time.Duration) {
		fork, done := m.Fork(), make(chan error, 1)
		go func() { done <- read(fork) }()
		for {
			select {
			case err := <-done:
				if err != nil {
					b.Fatal(err)
				}
				return took
			default:
			}
			took = append(took, apply())
			if pause > 0 {
				<-time.After(pause) // real time: until the next command
			}
		}
	}
	b.ResetTimer()
	for range b.N {
		busy = append(busy, beside(0)...)
	}
	b.StopTimer()
	for range b.N {
		paced = append(paced, beside(100*time.Microsecond)...)
	}
	slices.Sort(calm)
	slices.Sort(busy)
	p99 := func(took []time.Duration) float64 { return float64(took[len(took)*99/100]) }
	b.ReportMetric(float64(busy[len(busy)/2]), "ns-p50")
	b.ReportMetric(p99(busy), "ns-p99")
	b.ReportMetric(p99(calm), "ns-p99-calm")
	b.ReportMetric(float64(busy[len(busy)-1]), "ns-worst")
	b.ReportMetric(float64(slices.Max(paced)), "ns-worst-paced")
}

type counter int

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// What a start costs for each held lock, each finished Once key, and each session with a lock.
func BenchmarkReadSnapshotOfAMillion(b *testing.B) {
	for _, of := range []struct {
		what string
		make func() *Machine
	}{
		{"locks", func() *Machine { m, _, _ := held(b, million, scattered); return m }},
		{"keys", func() *Machine { return finished(b, million) }},
		{"sessions", func() *Machine { return opened(b, million) }},
	} {
		b.Run(of.what, func(b *testing.B) {
			saved := snapshot(of.make())
			for b.Loop() {
				if _, err := ReadSnapshot(bytes.NewReader(saved)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/record")
		})
	}
}

// finished is a machine that remembers n Once keys of 20 bytes.
func finished(tb testing.TB, n int) *Machine {
	tb.Helper()
	m, index, id := held(tb, 0, inOrder)
	for i := range n {
		name, r := OnceName(fmt.Sprintf("webhook/%012d", i)), uint64(i+1)
		*index++
		o, _ := m.Apply(*index, id.Process(), Encode(Acquire{Session: id, TTL: time.Second, Request: r, Acked: r, Name: name}))
		*index++
		m.Apply(*index, id.Process(), Encode(Finish{Session: id, Acked: r + 1, Name: name, Token: o.Token, Keep: 24 * time.Hour}))
	}
	if keys := m.Info().Keys; keys != n {
		tb.Fatal(keys)
	}
	return m
}

// opened is a machine in which n sessions hold a lock each.
func opened(tb testing.TB, n int) *Machine {
	tb.Helper()
	m, index, id := held(tb, 0, inOrder)
	for i := range n {
		id.Number = uint64(i + 1)
		*index++
		o, _ := m.Apply(*index, id.Process(), Encode(Acquire{Session: id, TTL: time.Second, Request: 1, Name: scattered(i)}))
		if o.Code != CodeGranted {
			tb.Fatal(o.Code)
		}
	}
	return m
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
			m.Apply(*index, id.Process(), Encode(Acquire{Session: id, TTL: time.Second, Request: uint64(i + 1), Name: "hot", Wait: true}))
		}
		b.ReportMetric(float64(heap()-before)/waiters, "B/waiter")
		runtime.KeepAlive(m)
	}
}

// A key of 20 bytes that was run once and is remembered.
func BenchmarkMemoryOfAMillionOnceKeys(b *testing.B) {
	for b.Loop() {
		before := heap()
		m := finished(b, million)
		b.ReportMetric(float64(heap()-before)/million, "B/key")
		b.ReportMetric(float64(len(snapshot(m)))/million, "B/key-in-snapshot")
		runtime.KeepAlive(m)
	}
}

// What one Sweep of a million keys costs, each of which is due.
func BenchmarkSweep(b *testing.B) {
	m, index, id := held(b, 0, inOrder)
	apply := func(c Command) Outcome {
		*index++
		o, _ := m.Apply(*index, ProcessOf(c), Encode(c))
		return o
	}
	fill := func(n int) {
		for range n {
			r := *index
			name := OnceName(scattered(int(r)))
			o := apply(Acquire{Session: id, TTL: time.Second, Request: r, Acked: r, Name: name})
			apply(Finish{Session: id, Acked: r + 1, Name: name, Token: o.Token, Keep: time.Millisecond})
		}
	}
	fill(100_000)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		fill(SweepMax)
		for range 2 {
			apply(Turn{Keep: time.Millisecond, Last: m.Classes()[0].Last})
		}
		due := m.Classes()[0].Over
		b.StartTimer()
		apply(Sweep{Keep: time.Millisecond, Upto: due})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/SweepMax, "ns/key")
}

// An acquire and a release of each kind, to be compared with the plain lock's.
func BenchmarkKinds(b *testing.B) {
	for _, kind := range []struct {
		name   string
		change func(*Acquire)
	}{
		{"lock", func(*Acquire) {}},
		{"permit", func(c *Acquire) { c.Mode, c.Limit = Permit, 10 }},
		{"election", func(c *Acquire) { c.Wait, c.HasValue, c.Value = true, true, []byte("10.0.0.1:80") }},
		{"set of 3", func(c *Acquire) { c.Others = []string{"{job}/2", "{job}/3"} }},
		{"once", func(c *Acquire) { c.Name = OnceName(fmt.Sprint(c.Request)) }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			m, index, id := held(b, 0, inOrder)
			cmds := make([][]byte, 0, 2*b.N)
			for i := range uint64(b.N) {
				c := Acquire{Session: id, TTL: time.Second, Request: i + 1, Acked: i + 1, Name: "{job}/1"}
				kind.change(&c)
				var end Command = Release{Session: id, Acked: i + 2, Grants: []Grant{{c.Name, i + 1}}}
				if isOnce(c.Name) {
					end = Finish{Session: id, Acked: i + 2, Name: c.Name, Token: i + 1, Keep: time.Hour}
				}
				cmds = append(cmds, Encode(c), Encode(end))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i, cmd := range cmds {
				*index++
				if o, _ := m.Apply(*index, id.Process(), cmd); o.Code != CodeGranted && i%2 == 0 || o.Code != CodeOK && i%2 == 1 {
					b.Fatal(o.Code)
				}
			}
			b.ReportMetric(2, "commands/op")
		})
	}
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// An acquire and a release of each of 512 locks, in full batches, with the outcomes packed: what an
// entry keeps other commands from for.
func BenchmarkFullBatches(b *testing.B) {
	m, index, id := held(b, 0, inOrder)
	batches := make([][]byte, 0, 2*b.N)
	for i := range uint64(b.N) {
		acquires, releases := AppendBatch(nil), AppendBatch(nil)
		for n := range uint64(BatchMax) {
			r, name := i*BatchMax+n+1, fmt.Sprint("lock/", n)
			acquires = AppendToBatch(acquires, Encode(Acquire{Session: id, TTL: time.Second, Request: r, Acked: i*BatchMax + 1, Name: name}))
			releases = AppendToBatch(releases, Encode(Release{Session: id, Acked: (i+1)*BatchMax + 1, Grants: []Grant{{name, r}}}))
		}
		batches = append(batches, acquires, releases)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, batch := range batches {
		*index++
		o, _ := m.Apply(*index, id.Process(), batch)
		if last := o.Each[BatchMax-1].Code; last > CodeGranted {
			b.Fatal(last)
		}
		o.Pack()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*BatchMax*b.N), "ns/command")
}
