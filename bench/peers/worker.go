package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
	"github.com/holdfast-go/holdfast/internal/process"
)

// workerVar makes this program run as a process in which callers are; its value is the startup as
// JSON.
const workerVar = "HOLDFAST_PEERS_WORKER"

// startup says how a worker begins: as the client of servers at some addresses, or as number Index
// of an embedded system, with its data in Dir.
type startup struct {
	System string
	Addrs  []string
	Index  int
	Dir    string
}

// locks are what callers of one process use.
type locks interface {
	// caller returns the calls of one caller. The locks of several callers are the same if
	// shared.
	caller(ctx context.Context, shared bool) (caller, error)
	// leads reports whether calls are to be made in this process.
	leads() bool
	Close() error
}

// caller acquires a lock. The grant is given back by the function that it returns.
type caller func(ctx context.Context, name string) (release func(context.Context) error, err error)

// Orders to a worker.
const (
	opLeads = "leads" // whether calls are to be made here
	opFirst = "first" // acquire a lock, as soon as one can be had
	opLoad  = "load"  // callers for a while
)

type order struct {
	Op         string
	Callers    int
	Shared     bool // they want one lock
	Stamps     bool // the answer has the time of each grant
	Warm, Span time.Duration
	Patience   time.Duration // of a pair; 0 is callMax
	Limit      time.Duration // of the whole order; 0 is enough for the last pairs
}

// answer is a worker's to one order. Times are unix nanoseconds of the machine's clock.
type answer struct {
	Err       string
	Leads     bool
	At        int64
	Grants    int
	Failed    int
	FirstErr  string
	P50, P99  time.Duration // of a pair
	GrantedAt []int64
}

// beWorker runs a worker until its input ends.
func beWorker(text string) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent ends its workers
	var s startup
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = serve(s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: worker of %s: %v\n", s.System, err)
		return 1
	}
	return 0
}

func serve(s startup) error {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	l, err := connect(ctx, s)
	cancel()
	if err != nil {
		return err
	}
	defer l.Close()
	w := &worker{l}
	return process.Serve(os.Stdin, os.Stdout, w.do)
}

// worker carries out orders.
type worker struct{ locks locks }

func (w *worker) do(o order) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Limit)
	defer cancel()
	var err error
	switch o.Op {
	case opLeads:
		a.Leads = w.locks.leads()
	case opFirst:
		err = w.first(ctx)
		a.At = time.Now().UnixNano()
	case opLoad:
		err = w.load(ctx, o, &a)
	default:
		err = fmt.Errorf("no order %q", o.Op)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func (w *worker) first(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, callMax)
		call, err := w.locks.caller(attempt, false)
		if err == nil {
			var release func(context.Context) error
			if release, err = call(attempt, "first"); err == nil {
				err = release(attempt)
			}
		}
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// load lets callers acquire and release for a while. What ends in the window counts. Each caller
// makes a pair before the window is opened, as its first makes connections and parents of names.
func (w *worker) load(ctx context.Context, o order, a *answer) error {
	calls := make([]caller, o.Callers)
	for i := range calls {
		var err error
		if calls[i], err = w.locks.caller(ctx, o.Shared); err != nil {
			return err
		}
	}
	l := &window{order: o, prefix: strconv.FormatInt(time.Now().UnixNano(), 36)}
	if !o.Stamps { // the parent knows when it began
		l.each(calls, func(i int, call caller) { _, _ = l.pair(ctx, call, l.name(i, 0)) })
	}
	l.from = time.Now().Add(o.Warm)
	l.to = l.from.Add(o.Span)
	l.each(calls, func(i int, call caller) { l.callFor(ctx, i, call) })
	a.Grants, a.Failed, a.GrantedAt = l.grants, l.failed, l.stamps
	if l.first != nil {
		a.FirstErr = l.first.Error()
	}
	a.P50, a.P99 = chart.Quantile(l.times, 0.5), chart.Quantile(l.times, 0.99)
	return nil
}

// window collects what callers did in a span of time.
type window struct {
	order
	from, to time.Time
	prefix   string // of the locks' names

	mu     sync.Mutex
	times  []time.Duration // of pairs
	stamps []int64         // of grants
	grants int
	failed int
	first  error
}

// each lets all callers do something at once, and waits for them.
func (l *window) each(calls []caller, do func(int, caller)) {
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { do(i, call) })
	}
	all.Wait()
}

// callFor is one caller. After a failure, which may have left its lock held, it goes on with
// another.
func (l *window) callFor(ctx context.Context, i int, call caller) {
	var times []time.Duration
	var stamps []int64
	grants, failed := 0, 0
	name := l.name(i, 0)
	var first error
	for began := time.Now(); began.Before(l.to) && ctx.Err() == nil; began = time.Now() {
		granted, err := l.pair(ctx, call, name)
		ended := time.Now()
		if granted.After(l.from) && granted.Before(l.to) {
			grants++
			if l.Stamps {
				stamps = append(stamps, granted.UnixNano())
			}
		}
		switch {
		case err != nil:
			failed++
			first = cmp.Or(first, err)
			name = l.name(i, failed)
			time.Sleep(5 * time.Millisecond) // the next attempt may fail as quickly
		case ended.After(l.from) && ended.Before(l.to):
			times = append(times, ended.Sub(began))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times, l.stamps = append(l.times, times...), append(l.stamps, stamps...)
	l.grants, l.failed, l.first = l.grants+grants, l.failed+failed, cmp.Or(l.first, first)
}

// name is that of a caller's lock.
func (l *window) name(i, failures int) string {
	if l.Shared {
		return l.prefix + "-shared"
	}
	return fmt.Sprintf("%s-%d-%d", l.prefix, i, failures)
}

// pair acquires and releases a lock; granted is zero if it was not.
func (l *window) pair(
	ctx context.Context, call caller, name string,
) (granted time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.Patience, callMax))
	defer cancel()
	release, err := call(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	granted = time.Now()
	return granted, release(ctx)
}

// seat is a worker as its parent sees it.
type seat struct {
	*process.Client[order, answer]
}

// sit starts a worker, in a process group of its own.
func sit(s startup) (*seat, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := process.Self()
	cmd.Env = append(cmd.Env, workerVar+"="+string(text))
	prepare(cmd)
	c, err := process.StartClient[order, answer](cmd)
	if err != nil {
		return nil, err
	}
	return &seat{c}, nil
}

// begin gives an order. The function that it returns waits for the answer.
func (s *seat) begin(ctx context.Context, o order) func() (answer, error) {
	if o.Limit == 0 {
		o.Limit = o.Warm + o.Span + 3*callMax
	}
	answered := s.Begin(o)
	return func() (answer, error) {
		ctx, cancel := context.WithTimeout(ctx, o.Limit+callMax)
		defer cancel()
		a, err := s.Await(ctx, answered)
		if err == nil && a.Err != "" {
			err = errors.New(a.Err)
		}
		if err != nil {
			return a, fmt.Errorf("%s: %w", o.Op, err)
		}
		return a, nil
	}
}

func (s *seat) ask(ctx context.Context, o order) (answer, error) { return s.begin(ctx, o)() }
