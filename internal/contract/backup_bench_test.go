package contract_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/backup"
)

// millionNames is a backup with a million locks that have a value.
func millionNames(b *testing.B) io.Reader {
	b.Helper()
	m, id, index := fsm.New(), fsm.SessionID{Node: fsm.Node{'a'}, Incarnation: 1, Number: 1}, uint64(0)
	apply := func(c fsm.Command) {
		index++
		if o, _ := m.Apply(index, fsm.ProcessOf(c), fsm.Encode(c)); o.Code != fsm.CodeOK && o.Code != fsm.CodeGranted {
			b.Fatalf("%T: %v", c, o.Code)
		}
	}
	apply(fsm.Birth{Cluster: [16]byte{1}, Bootstrap: 1, Voters: 1})
	apply(fsm.RaiseTTL{TTL: time.Second})
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: id.Node, Incarnation: 1, Name: "alpha"})
	for i := range uint64(1_000_000) {
		apply(fsm.Acquire{Session: id, TTL: time.Second, Request: i + 1, Acked: i + 1, Name: fmt.Sprint("config/", i), HasValue: true, Value: []byte("v")})
	}
	var written bytes.Buffer
	if err := backup.Write(&written, backup.Header{Cluster: "holdfast", Written: time.Now()}, m, nil); err != nil {
		b.Fatal(err)
	}
	return &written
}

// BenchmarkCallsBesideABackupOfAMillion is the 99th percentile of Acquire and Release by eight
// callers, while backups of a million locks are written and in as many seconds without, in turns.
func BenchmarkCallsBesideABackupOfAMillion(b *testing.B) {
	c, err := holdfast.Open(b.Context(), holdfast.Config{Restore: millionNames(b), Bootstrap: 1, MaxTTL: time.Second, TTL: time.Second, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	release(b, acquire(b, c, "bench"))
	var mu sync.Mutex
	load := func(during func()) (took []time.Duration) {
		ctx, stop := context.WithCancel(b.Context())
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					if !acquireRelease(b, c, fmt.Sprint("bench/", caller)) {
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
					<-time.After(time.Millisecond) // real time: what the caller does with the lock's resource
				}
			})
		}
		during()
		stop()
		callers.Wait()
		return took
	}
	var beside, calm []time.Duration
	for b.Loop() {
		began := time.Now()
		beside = append(beside, load(func() {
			if err := c.Backup(b.Context(), io.Discard); err != nil {
				b.Error(err)
			}
		})...)
		span := time.Since(began)
		calm = append(calm, load(func() {
			<-time.After(span) // real time: as long as the backup took
		})...)
	}
	p99 := func(took []time.Duration) float64 { slices.Sort(took); return float64(took[len(took)*99/100]) }
	b.ReportMetric(p99(calm), "ns-p99-calm")
	b.ReportMetric(p99(beside), "ns-p99")
	b.ReportMetric(p99(beside)/p99(calm), "p99-ratio")
}
