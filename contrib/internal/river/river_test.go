//go:build unix

package river_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/migrationtest"
	"github.com/holdfast-go/holdfast/contrib/pgxfence"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// No lock is needed for that: River's clients elect one of themselves.
func TestOneClientAloneInsertsPeriodicJobs(t *testing.T) {
	t.Parallel()
	pool := database(t)
	inserted := make(chan int, 10000) // by which client
	var clients []*river.Client[pgx.Tx]
	for i := range 3 {
		insert := func() (river.JobArgs, *river.InsertOpts) {
			inserted <- i
			return report{}, nil
		}
		every := river.NewPeriodicJob(river.PeriodicInterval(100*time.Millisecond), insert, nil)
		clients = append(clients, client(t, pool, river.Config{PeriodicJobs: []*river.PeriodicJob{every}},
			func(context.Context, *river.Job[report]) error { return nil }))
	}
	// alone fails the test unless 5 jobs in turn are inserted by one client.
	alone := func(which int) {
		t.Helper()
		for range 5 {
			if other := next(t, inserted); other != which {
				t.Errorf("client %d inserted, and client %d", which, other)
			}
		}
	}
	first := next(t, inserted)
	alone(first)
	if err := clients[first].Stop(t.Context()); err != nil { // it hands over
		t.Fatal(err)
	}
	second := first
	for second == first {
		second = next(t, inserted)
	}
	alone(second)
}

// exporter works reports one after the other, whichever client each of them has come to.
type exporter struct {
	cluster *holdfast.Cluster
	pool    *pgxpool.Pool
	guard   *pgxfence.Guard
	stopped func(job int) // where a process may be stopped: it has the lock and has written nothing
	worked  chan<- outcome
}

// outcome is how the work of a job has ended.
type outcome struct {
	job int
	err error
}

func (e *exporter) work(ctx context.Context, job *river.Job[report]) error {
	err := e.cluster.Do(ctx, "export", func(_ context.Context, lease *holdfast.Lease) error {
		e.stopped(job.Args.Number)
		// The context that tells of a loss is not used: a process that was stopped has not heard.
		return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
			if err := e.guard.In(tx).Check(ctx, "export", lease.Token()); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO exports VALUES ($1, $2)", job.Args.Number, lease.Token()); err != nil {
				return err
			}
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	})
	e.worked <- outcome{job.Args.Number, err}
	return err
}

// Two clients work a job each. One has the lock and is stopped, the other waits for it, and has
// written when the first goes on.
func TestWorkInDoDoesNotOverlapAndLateWorkIsRolledBack(t *testing.T) {
	t.Parallel()
	pool := database(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE exports (job INTEGER, token BIGINT)"); err != nil {
		t.Fatal(err)
	}
	guard, err := pgxfence.New(t.Context(), pool, "fence")
	if err != nil {
		t.Fatal(err)
	}
	fleet := holdfasttest.Fleet(t, 2)
	worked, first, goOn := make(chan outcome, 100), make(chan int, 1), make(chan struct{})
	stopped := func(job int) {
		select {
		case first <- job: // room for one
			select {
			case <-goOn:
			case <-time.After(patience): // the test has failed
			}
		default:
		}
	}
	var either *river.Client[pgx.Tx]
	for _, node := range fleet {
		e := &exporter{node, pool, guard, stopped, worked}
		either = client(t, pool, river.Config{}, e.work)
	}
	for job := range 2 {
		if _, err := either.Insert(t.Context(), report{job}, nil); err != nil {
			t.Fatal(err)
		}
	}
	late := next(t, first)
	first <- late // nobody else is stopped
	if err := migrationtest.AwaitWaiters(t.Context(), fleet[0], "export", 1); err != nil {
		t.Fatal(err)
	}
	info, err := fleet[0].Inspect(t.Context(), "export")
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet[0].ForceRelease(t.Context(), "export", info.Holders[0].Token, "test"); err != nil {
		t.Fatal(err)
	}
	if got := next(t, worked); got.job == late || got.err != nil {
		t.Errorf("the next holder: job %d, %v", got.job, got.err)
	}
	close(goOn)
	if got := next(t, worked); got.job != late || !errors.Is(got.err, fence.ErrStale) || !errors.Is(got.err, holdfast.ErrLost) {
		t.Errorf("the former holder: job %d, %v", got.job, got.err)
	}
	if got := next(t, worked); got.job != late || got.err != nil { // River tries again
		t.Errorf("the second attempt: job %d, %v", got.job, got.err)
	}
	wantExports(t, pool, 1-late, late)
}

// wantExports asserts which jobs have written, in the order of their tokens.
func wantExports(t *testing.T, pool *pgxpool.Pool, want ...int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT job FROM exports ORDER BY token")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("jobs %v have written, want %v; %v", got, want, err)
	}
}
