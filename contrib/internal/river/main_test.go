//go:build unix

package river_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything here takes.
const patience = time.Minute

// database starts a server with River's tables. The pool is for all clients of a test.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	s := serverstest.Start(t, servers.Postgres)
	pool, err := pgxpool.New(t.Context(), s.PostgresDSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return pool
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// next returns what comes from a channel.
func next[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatal("nothing came in time")
	}
	return value
}

// report is a job.
type report struct {
	Number int `json:"number"`
}

func (report) Kind() string { return "report" }

// worker works reports.
type worker struct {
	river.WorkerDefaults[report]
	work func(context.Context, *river.Job[report]) error
}

func (w *worker) Work(ctx context.Context, job *river.Job[report]) error { return w.work(ctx, job) }

// NextRetry is at once.
func (w *worker) NextRetry(*river.Job[report]) time.Time { return time.Now() }

// client is one that works a report at a time, with what else cfg says, until the test is over.
func client(t *testing.T, pool *pgxpool.Pool, cfg river.Config, work func(context.Context, *river.Job[report]) error) *river.Client[pgx.Tx] {
	t.Helper()
	cfg.Logger, cfg.Workers = quiet(), river.NewWorkers()
	cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}
	river.AddWorker(cfg.Workers, &worker{work: work})
	c, err := river.NewClient(riverpgxv5.New(pool), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(context.WithoutCancel(t.Context())); err != nil { // Stop ends it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.StopAndCancel(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}
