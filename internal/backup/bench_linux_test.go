package backup

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/fsm"
)

// BenchmarkAppliesBesideABackupOfAMillion is what an Apply costs while a backup of a million locks is
// written, and in the seconds before. Processor time of the thread counts, since other programs may
// have the machine. No Apply may take 20 ms.
func BenchmarkAppliesBesideABackupOfAMillion(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, id := fsm.New(), fsm.SessionID{Node: fsm.Node{'a'}, Incarnation: 1, Number: 1}
	index, request := uint64(0), uint64(0)
	apply := func(c fsm.Command) time.Duration {
		cmd, by := fsm.Encode(c), fsm.ProcessOf(c)
		began := processor(b)
		index++
		if o, _ := m.Apply(index, by, cmd); o.Code != fsm.CodeOK && o.Code != fsm.CodeGranted {
			b.Fatalf("%T: %v", c, o.Code)
		}
		return processor(b) - began
	}
	apply(fsm.Birth{Cluster: [16]byte{1}, Bootstrap: 1, Voters: 1})
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: id.Node, Incarnation: 1, Name: "alpha"})
	acquire := func() time.Duration {
		request++
		name := fmt.Sprintf("orders/%08x", uint32(request)*2654435761) // far from the one before
		return apply(fsm.Acquire{Session: id, TTL: time.Minute, Request: request, Acked: request, Name: name, HasValue: true, Value: []byte("v")})
	}
	for range 1_000_000 {
		acquire()
	}
	runtime.GC()
	var calm, busy []time.Duration
	for range 200_000 {
		calm = append(calm, acquire())
	}
	b.ResetTimer()
	for range b.N {
		fork, done := m.Fork(), make(chan error, 1)
		go func() { done <- Write(io.Discard, Header{}, fork, nil) }()
		for writing := true; writing; {
			select {
			case err := <-done:
				if err != nil {
					b.Fatal(err)
				}
				writing = false
			default:
				busy = append(busy, acquire())
			}
		}
	}
	slices.Sort(calm)
	slices.Sort(busy)
	before, beside, worst := calm[len(calm)*99/100], busy[len(busy)*99/100], busy[len(busy)-1]
	b.ReportMetric(float64(before), "ns-p99-calm")
	b.ReportMetric(float64(beside), "ns-p99")
	b.ReportMetric(float64(worst), "ns-worst")
	if worst > 20*time.Millisecond {
		b.Errorf("an Apply took %v", worst)
	}
}

// processor is how much time of a processor this thread has had.
func processor(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
