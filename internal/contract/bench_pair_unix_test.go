//go:build unix

package contract_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// BenchmarkPairOfThree is a lock and its release by many callers of the raft leader's node, in a fleet
// of three. cpu-ns/op is the processor time of all three.
func BenchmarkPairOfThree(b *testing.B) {
	for _, data := range []string{"memory", "disk"} {
		for _, callers := range []int{256, 1024} {
			b.Run(fmt.Sprintf("%s/callers=%d", data, callers), func(b *testing.B) {
				dir := b.TempDir()
				nodes := fleet(b, 3, func(i int, cfg *holdfast.Config) {
					if data == "disk" {
						cfg.DataDir = filepath.Join(dir, strconv.Itoa(i))
					}
				})
				leads := nodes[0]
				for _, n := range nodes {
					if n.Status().RaftLeader == n.ID() {
						leads = n
					}
				}
				pairs(b, leads, callers, 4*callers)
				b.ReportAllocs()
				b.ResetTimer()
				before := processorTime(b)
				pairs(b, leads, callers, b.N)
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// pairs acquires and releases n times, each caller a lock of its own.
func pairs(b *testing.B, c *holdfast.Cluster, callers, n int) {
	var begun atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			name := "bench/" + strconv.Itoa(i)
			for begun.Add(1) <= int64(n) && acquireRelease(b, c, name) {
			}
		})
	}
	all.Wait()
}

// processorTime is what this process has taken so far, in nanoseconds.
func processorTime(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
