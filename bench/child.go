package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
)

// childVar makes this program run as one process of a fleet; its value is the startup as JSON.
const childVar = "HOLDFAST_BENCH_CHILD"

// Orders to end at once, with all connections open.
const (
	opPanic = "panic"
	opExit  = "exit"
)

type order struct {
	Op      string
	What    string        // operation, file or lock name
	Count   int           // callers, locks, replica
	Span    time.Duration // how long to do it
	Hold    time.Duration // how long a contended lock is held; how long a caller pauses before each operation
	Addr    string
	Timeout time.Duration
}

type answer struct {
	Err     string
	Role    string
	Addr    string // of its port
	Term    uint64
	Took    time.Duration   // "load": the time of all; "opened": from before Open to Ready
	Times   []time.Duration // of each operation
	Count   int             // of leases: "lost"
	Turns   []turn
	Stamps  []int64 // unix nanoseconds at which operations ended
	At      int64
	Figures usage
}

type usage struct {
	CPU                     time.Duration // user and system since its start
	Goroutines, Descriptors int           // more than before its contestant was started
	Sockets, Engine         int           // descriptors and goroutines among those: of the network, and of the Raft engine
	Resident, Heap          int64         // bytes; Heap only after a collection
}

func child(text string) int {
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "bench child:", err)
		return 1
	}
	return 0
}

func serve(text string) error {
	var s startup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // the parent ends its children
	before := measure(false)
	began := time.Now()
	c, err := start(s)
	if err != nil {
		return err
	}
	defer c.Close()
	opened := make(chan time.Duration, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.ready(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench child: not ready:", err)
		}
		opened <- time.Since(began)
	}()
	w := &worker{c: c, before: before, opened: opened}
	return process.Serve(os.Stdin, os.Stdout, w.do)
}

type worker struct {
	c      contestant
	before usage
	opened chan time.Duration
}

func (w *worker) do(o order) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	var err error
	switch o.Op {
	case "opened":
		a.Took = <-w.opened
		w.opened <- a.Took
	case "role":
		a.Role, a.Term = w.c.role()
		if n, ok := w.c.(*node); ok {
			a.Addr = n.Addr()
		}
	case "load":
		a.Took, a.Times, a.Stamps, err = w.load(ctx, o)
	case "usage":
		a.Figures = measure(o.What == "collect")
		a.Figures.Goroutines -= w.before.Goroutines + 1 // and the one that measures
		a.Figures.Descriptors -= w.before.Descriptors
		a.Figures.Sockets -= w.before.Sockets
		a.Figures.Engine -= w.before.Engine
	case "admit":
		err = w.c.(*engine).admit(ctx, uint64(o.Count), o.Addr)
	case "garbage":
		litter(ctx, o.Count, o.Span)
	case "hold":
		err = w.c.(*node).hold(ctx, o.Count)
	case "lost":
		a.Count = w.c.(*node).lost()
	case "contend":
		a.Turns, err = w.c.(*node).contend(ctx, o.What, o.Span, o.Hold, o.Count)
	case "take":
		_, err = w.c.(*node).Acquire(ctx, o.What, holdfast.WithTTL(o.Span))
		a.At = time.Now().UnixNano()
	case opPanic:
		_ = os.Stderr.Close() // where the trace would go
		panic("as was ordered")
	case opExit:
		os.Exit(1)
	default:
		err = fmt.Errorf("no order %q", o.Op)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func (w *worker) load(ctx context.Context, o order) (took time.Duration, times []time.Duration, stamps []int64, err error) {
	ops := make([]func(context.Context) error, o.Count)
	for i := range ops {
		if ops[i], err = w.c.operation(o.What, i); err != nil {
			return 0, nil, nil, err
		}
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	end := began.Add(o.Span)
	for _, op := range ops {
		work.Go(func() {
			mine := make([]time.Duration, 0, 1024)
			ends := make([]int64, 0, 1024)
			for {
				if o.Hold > 0 {
					time.Sleep(o.Hold)
				}
				from := time.Now()
				if !from.Before(end) {
					break
				}
				if e := op(ctx); e != nil {
					mu.Lock()
					err = errors.Join(err, e)
					mu.Unlock()
					return
				}
				now := time.Now()
				mine, ends = append(mine, now.Sub(from)), append(ends, now.UnixNano())
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			if o.Count == 1 {
				stamps = ends
			}
		})
	}
	work.Wait()
	return time.Since(began), times, stamps, err
}

// litter keeps the collector busy: so many goroutines hold a heap full of pointers each and replace
// it all the time.
func litter(ctx context.Context, count int, span time.Duration) {
	const live = 1 << 19 // allocations that each holds, of some hundred bytes
	end := time.Now().Add(span)
	var work sync.WaitGroup
	for range count {
		work.Go(func() {
			heap := make([]*[12]*int, live)
			for i := 0; i%1024 != 0 || time.Now().Before(end) && ctx.Err() == nil; i++ {
				heap[i%live] = new([12]*int)
			}
			runtime.KeepAlive(heap)
		})
	}
	work.Wait()
}

func measure(collect bool) usage {
	var u usage
	if collect {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Heap = int64(m.HeapAlloc)
	}
	u.CPU = process.CPU()
	u.Goroutines = runtime.NumGoroutine()
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "/dragonboat/") || strings.Contains(stack, "/pebble") {
			u.Engine++
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.Descriptors = len(open)
		for _, fd := range open {
			if of, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(of, "socket:") {
				u.Sockets++
			}
		}
	}
	var pages, resident int64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(text), &pages, &resident)
		u.Resident = resident * int64(os.Getpagesize())
	}
	return u
}
