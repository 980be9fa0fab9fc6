package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
	"github.com/holdfast-go/holdfast/internal/loop"
)

// settings say how long each measure takes.
type settings struct {
	warm, span time.Duration // of one load
	rest       time.Duration
	gapAhead   time.Duration // load before the leader is killed
	gapSpan    time.Duration // load after it
}

func thorough() settings {
	return settings{
		warm: 500 * time.Millisecond, span: 2 * time.Second, rest: 5 * time.Second,
		gapAhead: time.Second, gapSpan: 12 * time.Second, // NATS needs up to nine for an election
	}
}

func quick() settings {
	return settings{
		warm: 200 * time.Millisecond, span: 500 * time.Millisecond, rest: time.Second,
		gapAhead: 500 * time.Millisecond, gapSpan: 3 * time.Second,
	}
}

const (
	sharers    = 64 // callers that want one lock
	gapCallers = 16 // callers while the leader is killed
	gapPatient = 2 * time.Second
)

// result is what one run of one system on a fresh cluster gave.
type result struct {
	System  string             `json:"system"`
	Round   int                `json:"round"`
	Figures map[string]float64 `json:"figures"`          // by a metric's key, in its unit
	Failed  int                `json:"failed,omitempty"` // pairs, in all loads but that of fail-over
	Error   string             `json:"error,omitempty"`  // the first of those
	Down    bool               `json:"down,omitempty"`   // no grant from the kill to the measure's end
	Others  float64            `json:"others"`           // processors that others took while it rested
}

// trial is one run of one system.
type trial struct {
	settings
	contestant
	*cluster
	result
	tell func(format string, args ...any)
}

// try measures one system on a fresh cluster, and ends all of it.
func try(
	ctx context.Context, s settings, c contestant, dir string, tell func(string, ...any),
) (_ result, err error) {
	t := &trial{settings: s, contestant: c, tell: tell}
	t.System, t.Figures = c.name, make(map[string]float64)
	dir, err = os.MkdirTemp(dir, c.name+"-")
	if err != nil {
		return t.result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // a server may run as another user
		return t.result, err
	}
	t.tell("starts")
	began := time.Now()
	t.cluster, err = c.start(ctx, dir)
	if t.cluster != nil {
		defer t.stop()
	}
	if err != nil {
		return t.result, fmt.Errorf("start: %w", err)
	}
	seat, err := t.seat(ctx)
	if err != nil {
		return t.result, fmt.Errorf("start: %w", err)
	}
	a, err := seat.ask(ctx, order{Op: opFirst, Limit: startMax})
	if err != nil {
		return t.result, err
	}
	if !t.began.IsZero() {
		began = t.began
	}
	t.Figures[keyFirst] = milliseconds(time.Duration(a.At - began.UnixNano()))
	for _, step := range []func(context.Context) error{t.atRest, t.loads, t.failover} {
		if err := step(ctx); err != nil {
			return t.result, err
		}
	}
	return t.result, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pids are the servers' and, if asked for, the client's.
func (t *trial) pids(client bool) (list []int) {
	for _, s := range t.servers {
		list = append(list, s.PID())
	}
	for _, s := range t.seats {
		if client && !t.embedded {
			list = append(list, s.PID())
		}
	}
	return list
}

// atRest measures the servers while nobody calls. Without /proc there are no figures.
func (t *trial) atRest(ctx context.Context) error {
	t.tell("at rest for %v", t.rest)
	before, err := measureUsage(t.pids(false))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	allBefore, err1 := busy()
	if err := errors.Join(err, err1, loop.Sleep(ctx, t.rest)); err != nil {
		return err
	}
	after, err := measureUsage(t.pids(false))
	allAfter, err1 := busy()
	used := after.cpu - before.cpu
	t.Others = max(0, (allAfter-allBefore-used).Seconds()/t.rest.Seconds())
	t.Figures[keyRestCPU] = 100 * used.Seconds() / t.rest.Seconds()
	t.Figures[keyRSS] = float64(after.resident) / (1 << 20)
	t.Figures[keyOwn] = float64(after.own) / (1 << 20)
	return errors.Join(err, err1)
}

// loads measures one caller, many with a lock each, and many that want one lock.
func (t *trial) loads(ctx context.Context) error {
	a, _, err := t.load(ctx, 1, false)
	if err != nil {
		return err
	}
	t.Figures[keyP50], t.Figures[keyP99] = milliseconds(a.P50), milliseconds(a.P99)
	for _, callers := range crowds() {
		a, cpu, err := t.load(ctx, callers, false)
		if err != nil {
			return err
		}
		t.Figures[keyPairs(callers)] = float64(a.Grants) / t.span.Seconds()
		if a.P99 > 0 { // a pair has begun and ended
			t.Figures[keyPairsP99(callers)] = milliseconds(a.P99)
		}
		if callers == crowds()[0] && cpu > 0 && a.Grants > 0 {
			// The load took warm and span; grants are those of span.
			share := t.span.Seconds() / (t.warm + t.span).Seconds()
			t.Figures[keyPairCPU] = cpu.Seconds() * share * 1e6 / float64(a.Grants)
		}
	}
	a, _, err = t.load(ctx, sharers, true)
	t.Figures[keyShared] = float64(a.Grants) / t.span.Seconds()
	return err
}

// load lets callers do pairs; cpu is what servers and client took for it.
func (t *trial) load(
	ctx context.Context, callers int, shared bool,
) (a answer, cpu time.Duration, err error) {
	what := "a lock each"
	if shared {
		what = "one lock"
	}
	t.tell("%d callers, %s", callers, what)
	seat, err := t.seat(ctx)
	if err != nil {
		return a, 0, err
	}
	before, _ := measureUsage(t.pids(true)) // without /proc the figure is left out
	a, err = seat.ask(ctx, order{
		Op: opLoad, Callers: callers, Shared: shared, Warm: t.warm, Span: t.span,
	})
	if err != nil {
		return a, 0, err
	}
	after, _ := measureUsage(t.pids(true))
	t.Failed += a.Failed
	if t.Error == "" {
		t.Error = a.FirstErr
	}
	if a.Grants == 0 && a.Failed > 0 {
		return a, 0, fmt.Errorf("%d callers with %s: no grant, %d failed: %s",
			callers, what, a.Failed, a.FirstErr)
	}
	return a, after.cpu - before.cpu, nil
}

// failover kills the leader under load. The gap is the longest time without a grant that callers
// saw on what stayed.
func (t *trial) failover(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	victim, err := t.leader(asked, t.cluster)
	if errors.Is(err, errNoFailover) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("which leads: %w", err)
	}
	t.tell("the leader is killed")
	span := t.gapAhead + t.gapSpan
	survivors := t.survivors(victim)
	var answers []func() (answer, error)
	for _, s := range t.seats {
		get := s.begin(ctx, order{
			Op: opLoad, Callers: gapCallers / len(t.seats), Stamps: true, Span: span, Patience: gapPatient,
		})
		if slices.Contains(survivors, s) {
			answers = append(answers, get)
		}
	}
	began := time.Now()
	if err := loop.Sleep(ctx, t.gapAhead); err != nil {
		return err
	}
	killed := time.Now()
	t.servers[victim].kill()
	var grants []int64
	for _, get := range answers {
		a, err := get()
		if err != nil {
			return fmt.Errorf("after the kill: %w", err)
		}
		grants = append(grants, a.GrantedAt...)
	}
	end := began.Add(span)
	gap := longestGap(grants, killed.UnixNano(), end.UnixNano())
	t.Figures[keyGap], t.Down = milliseconds(gap), gap >= end.Sub(killed)
	return nil
}

// longestGap is the longest time without a grant from one instant to another.
func longestGap(grants []int64, from, to int64) (longest time.Duration) {
	slices.Sort(grants)
	last := from
	for _, at := range append(grants, to) {
		if at > from && at <= to {
			longest, last = max(longest, time.Duration(at-last)), at
		}
	}
	return longest
}

// syncTime is the median time of an fdatasync-like write to the directory, in which data is.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var times []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	return chart.Quantile(times, 0.5), nil
}
