package processes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// heap is what is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// locksVar is how many locks the memory test takes; the promise is about a million.
const locksVar = "HOLDFAST_TEST_LOCKS"

func TestMemoryIsThatOfTheLocksHeld(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	total := 30_000
	if testing.Short() {
		total = 10_000
	}
	if s := os.Getenv(locksVar); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		total = n
	}
	c := testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = filepath.Join(t.TempDir(), "data") })
	ctx := t.Context()
	each := func(from, to int, f func(i int)) {
		var all sync.WaitGroup
		for worker := range 64 {
			all.Go(func() {
				for i := from + worker; i < to; i += 64 {
					f(i)
				}
			})
		}
		all.Wait()
	}
	cycle := func(i int) {
		if l, err := c.Acquire(ctx, fmt.Sprint("passing/", i)); err != nil {
			t.Error(err)
		} else if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	each(0, total/4, cycle) // what grows to its size once: pools, the log store's tables
	before := heap()
	each(total/4, total, cycle)
	grown := heap() - before
	t.Logf("%d locks taken and released: the heap grew by %d KiB", total-total/4, grown>>10)
	// The log store fills its tables of 4 MiB each in between; a lock that left its name alone
	// would be 50 B.
	if most := int64(20<<20) + int64(total)*10; grown > most {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}

	held := make([]*holdfast.Lease, total/3)
	before = heap()
	each(0, len(held), func(i int) {
		l, err := c.Acquire(ctx, fmt.Sprint("held/", i))
		if err != nil {
			t.Error(err)
		}
		held[i] = l
	})
	grown = heap() - before
	t.Logf("%d locks held: %d bytes of heap for each, with its Lease, on the node that holds it", len(held), grown/int64(len(held)))
	if grown/int64(len(held)) > 4<<10 {
		t.Errorf("%d bytes for each lock", grown/int64(len(held)))
	}
	each(0, len(held), func(i int) {
		if err := held[i].Release(ctx); err != nil {
			t.Error(err)
		}
	})
	clear(held)
	if left := heap() - before; left > 20<<20 {
		t.Errorf("%d KiB are left after all were released", left>>10)
	}
}
