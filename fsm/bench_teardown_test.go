package fsm

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// sessionLocks is how many locks the benchmarks give a session, as the product does.
const sessionLocks = 16_384

// holding is a machine in which a process holds n locks, for each of which another waits if waited.
func holding(tb testing.TB, n int, waited bool) *bench {
	b := &bench{tb, New()}
	run := func(c Command) {
		if o, _ := b.m.Apply(b.m.Applied()+1, ProcessOf(c), Encode(c)); o.Code != CodeOK && o.Code != CodeGranted && o.Code != CodeQueued {
			b.Fatalf("%T: %v", c, o.Code)
		}
	}
	run(Birth{Cluster: [16]byte{1}})
	run(Serve{})
	run(Hello{Node{'a'}, 1, "alpha", Place{"boot", 1, 2}, 0})
	run(Hello{Node{'b'}, 1, "beta", Place{"boot", 1, 2}, 0})
	for i := range n {
		r := uint64(i + 1)
		c := Acquire{Session: sessionOf('a', r/sessionLocks+1), TTL: time.Second, Request: r, Acked: 1, Name: scattered(i), Wait: true}
		run(c)
		if waited {
			c.Session.Node = Node{'b'}
			run(c)
		}
	}
	return b
}

// What a command costs at most that ends much, with those that take the rest away.
func BenchmarkWorstApplyOfAnEnd(b *testing.B) {
	for _, n := range []int{sessionLocks, 100_000, million} {
		for _, waited := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d locks, waited for %v", n, waited), func(b *testing.B) { benchmarkEnd(b, n, waited) })
		}
	}
}

func benchmarkEnd(b *testing.B, n int, waited bool) {
	var took []time.Duration
	for range b.N {
		b.StopTimer()
		m := holding(b, n, waited).m
		runtime.GC()
		b.StartTimer()
		hello := Hello{Node{'a'}, 2, "alpha", Place{"boot", 1, 2}, 0}
		for cmd, by, left := Encode(hello), ProcessOf(hello), true; left; {
			begin := time.Now()
			m.Apply(m.Applied()+1, by, cmd)
			took = append(took, time.Since(begin))
			var last uint64
			last, left = m.Unfinished()
			cmd, by = Encode(Continue{last}), Process{}
		}
	}
	slices.Sort(took)
	for name, at := range map[string]int{"ms-p50": len(took) / 2, "ms-p99": len(took) * 99 / 100, "ms-worst": len(took) - 1} {
		b.ReportMetric(float64(took[at].Microseconds())/1000, name)
	}
	b.ReportMetric(float64(len(took))/float64(b.N), "commands")
}

// What an entry costs at most of a batch of the largest sets, those included that are to come
// later.
func BenchmarkWorstApplyOfABatchOfSets(b *testing.B) {
	var took []time.Duration
	for range b.N {
		b.StopTimer()
		m := newBench(b).m
		sets := times(BatchMax, func(i uint64) Command { return setOf(i, fmt.Sprint(i)) })
		runtime.GC()
		b.StartTimer()
		for len(sets) > 0 {
			cmd := Encode(Batch{sets})
			begin := time.Now()
			o, _ := m.Apply(m.Applied()+1, Process{Node{'a'}, 1}, cmd)
			took = append(took, time.Since(begin))
			sets = sets[slices.IndexFunc(append(o.Each, Outcome{Code: CodeLater}), func(o Outcome) bool { return o.Code == CodeLater }):]
		}
	}
	b.ReportMetric(float64(slices.Max(took).Microseconds())/1000, "ms-worst")
	b.ReportMetric(float64(len(took))/float64(b.N), "entries")
}

// What a command, or a batch, costs at most that forgets numbers alone: of requests whose answers a
// client has heard, and of the sessions of a process that is over. A snapshot shares the state.
func BenchmarkWorstApplyOfForgetting(b *testing.B) {
	for name, full := range map[string]func(testing.TB) (*Machine, Command){
		"answers": func(tb testing.TB) (*Machine, Command) {
			m := newBench(tb).m
			heard := times(stepsOfEntry+1, func(n uint64) Command {
				id := sessionOf('a', n)
				apart(m, Acquire{Session: id, TTL: time.Hour, Request: 1, Name: "x", Terms: Terms{Mode: Shared}})
				for i := range uint64(SpansMax / ListMax) {
					apart(m, Withdraw{Session: id, Requests: times(ListMax, func(j uint64) uint64 { return 1 + 2*(ListMax*i+j) })})
				}
				return Withdraw{Session: id, Acked: 1 << 30}
			})
			return m, Batch{heard}
		},
		"sessions": func(tb testing.TB) (*Machine, Command) {
			m := newBench(tb).m
			for i := range uint64(NumbersMax) {
				apart(m, CloseSession{Session: sessionOf('a', 2*i+2)})
			}
			return m, Hello{Node{'a'}, 2, "alpha", Place{"boot", 1, 2}, 0}
		},
	} {
		b.Run(name, func(b *testing.B) {
			m, cmd := full(b)
			before, encoded := m.finished.tree.Len()+m.numbers.tree.Len(), Encode(cmd)
			var took []time.Duration
			for b.Loop() {
				fork := m.Fork()
				begin := time.Now()
				fork.Apply(fork.Applied()+1, ProcessOf(cmd), encoded)
				took = append(took, time.Since(begin))
				if left := fork.finished.tree.Len() + fork.numbers.tree.Len(); before-left < NumbersMax {
					b.Fatalf("%d of %d runs are left", left, before)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-worst")
		})
	}
}

// apart carries out a command that leaves runs of numbers.
func apart(m *Machine, c Command) { m.Apply(m.Applied()+1, ProcessOf(c), Encode(c)) }
