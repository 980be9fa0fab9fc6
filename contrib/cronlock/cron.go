package cronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
)

// ErrMissed: the run of a tick could not begin before the next tick was due, for want of a majority
// or because it still ran elsewhere.
var ErrMissed = errors.New("cronlock: the next tick came first")

// Job is what is run once per tick.
type Job struct {
	// Name is the same on all nodes, and no other job's: with "@" and the instant it is the key of
	// Once.
	Name string
	// Schedule names the same instants on all nodes: one that was parsed in a time zone that all
	// share, or Every.
	Schedule cron.Schedule
	// Run is the work. ctx ends with the lease or with the context given to Add; the lease's token
	// is for what it writes to. If it returns an error, or its node dies, the tick is open to a
	// node that comes to it later or that waits for it under holdfast.WithWait. If it returns nil, the
	// tick has run, also after the end of ctx: work that stops early returns context.Cause(ctx).
	Run func(ctx context.Context, l *holdfast.Lease) error
	// Options are those of Once.
	Options []holdfast.Option
	// Report is told what became of each tick on this node. Default: errors go to
	// cron.DefaultLogger.
	Report func(tick time.Time, r holdfast.OnceResult, err error)
}

// Add schedules j. Runs end with ctx: on shutdown, end it, and wait for the context that cr.Stop
// returns, before the Cluster is closed. Wrappers of cr's chain that skip runs
// (cron.SkipIfStillRunning) skip them on this node alone. Use none that delays runs
// (cron.DelayIfStillRunning): a delayed run is one of the latest tick by then, and Report hears of
// that tick again, and of those before it nothing.
//
// Errors, all of them ErrInvalid: an argument is nil, a field is missing, or Schedule is a
// cron.ConstantDelaySchedule ("@every 5m", cron.Every), which counts from the start of its process,
// so that no two have the same ticks.
func Add(ctx context.Context, cr *cron.Cron, c *holdfast.Cluster, j Job) (cron.EntryID, error) {
	if _, phase := j.Schedule.(cron.ConstantDelaySchedule); phase {
		return 0, fmt.Errorf("%w: Schedule: @every and cron.Every count from the start of a process: use Every of this package", holdfast.ErrInvalid)
	}
	if ctx == nil || cr == nil || c == nil { // cron's goroutine would panic at the first tick
		return 0, fmt.Errorf("%w: ctx, cr or c is nil", holdfast.ErrInvalid)
	}
	if j.Name == "" || j.Schedule == nil || j.Run == nil {
		return 0, fmt.Errorf("%w: a job needs Name, Schedule and Run", holdfast.ErrInvalid)
	}
	if j.Report == nil {
		j.Report = func(tick time.Time, _ holdfast.OnceResult, err error) {
			if err != nil {
				cron.DefaultLogger.Error(err, "a tick has failed", "job", j.Name, "tick", tick)
			}
		}
	}
	e := &entry{ctx: ctx, cr: cr, c: c, job: j, added: make(chan struct{})}
	e.id = cr.Schedule(j.Schedule, e)
	close(e.added)
	return e.id, nil
}

// entry is a job of cron, which tells a run nothing: the tick is what cron has noted for the entry.
type entry struct {
	ctx   context.Context
	cr    *cron.Cron
	c     *holdfast.Cluster
	job   Job
	added chan struct{} // closed when id is set
	id    cron.EntryID
}

// Run is cron.Job's.
func (e *entry) Run() {
	<-e.added
	noted := e.cr.Entry(e.id) // answered between two rounds of cron: after the round that began this run
	tick, after := noted.Prev, noted.Next
	if tick.IsZero() {
		e.job.Report(tick, holdfast.OnceResult{}, fmt.Errorf("%w: the entry was removed, or never due", ErrMissed))
		return
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	inTime := func() bool { return true }
	if !after.IsZero() { // it is where the schedule names no more
		inTime = time.AfterFunc(time.Until(after), cancel).Stop
	}
	began := false
	r, err := e.c.Once(ctx, holdfast.Slot(e.job.Name, tick, 0), func(ctx context.Context, l *holdfast.Lease) error {
		if began = inTime(); !began {
			return ErrMissed // ctx.Err() may be nil yet, and a run that answers nil is finished
		}
		return e.job.Run(ctx, l)
	}, e.job.Options...)
	if !began {
		r.Ran = false
		if err != nil && e.ctx.Err() == nil && ctx.Err() != nil && !errors.Is(err, ErrMissed) {
			err = errors.Join(ErrMissed, err)
		}
	}
	inTime()
	e.job.Report(tick, r, err)
}

// Every is a schedule whose ticks are the multiples of d since the zero time (time.Time.Truncate),
// the same on all nodes. d is at least a millisecond; less counts as one.
func Every(d time.Duration) cron.Schedule { return every(max(d, time.Millisecond)) }

type every time.Duration

func (d every) Next(now time.Time) time.Time {
	return now.Truncate(time.Duration(d)).Add(time.Duration(d))
}

// SkipIfNotLeader is a cron.JobWrapper for cron.NewChain and cron.WithChain: jobs run on the node
// that leads k alone. It is cheaper than Once, and weaker: nothing keeps the next leader, whose
// clock may be behind, from running a tick again that the last one has run.
func SkipIfNotLeader(k *holdfast.Campaign) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			if k.IsLeader() {
				j.Run()
			}
		})
	}
}
