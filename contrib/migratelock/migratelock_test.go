//go:build unix

package migratelock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/migrationtest"
	"github.com/holdfast-go/holdfast/contrib/migratelock"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

const lockName = "schema"

// watched is a driver that tells of each migration before it runs.
type watched struct {
	database.Driver
	run func()
}

func (w *watched) Run(migration io.Reader) error {
	w.run()
	return w.Driver.Run(migration)
}

// The first migration waits until the others wait for the lock, so their runs overlap.
func TestOfAFleetThatStartsTogetherEachMigrationRunsOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		var ran, migrators atomic.Int64
		db := b.open(t)
		nodes := holdfasttest.Fleet(t, 3)
		run := func() {
			if ran.Add(1) == 1 {
				if err := migrationtest.AwaitWaiters(t.Context(), nodes[0], lockName, 2); err != nil {
					t.Errorf("while the first migration runs: %v", err)
				}
			}
			if b.name != "postgres" {
				return
			}
			var locks int
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks); err != nil || locks > 0 {
				t.Errorf("%d session locks are held in the database: %v", locks, err)
			}
		}
		var all []*migrate.Migrate
		for _, node := range nodes {
			d := migratelock.New(&watched{b.inner(t), run}, node, lockName)
			d.Wait = migrationtest.Patience
			all = append(all, b.migrator(t, d))
		}
		var wg sync.WaitGroup
		for _, m := range all {
			wg.Go(func() {
				switch err := m.Up(); {
				case err == nil:
					migrators.Add(1)
				case !errors.Is(err, migrate.ErrNoChange):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.wantSteps(t, 2, 3)
		if ran.Load() != 3 || migrators.Load() != 1 {
			t.Errorf("%d processes have run %d migrations, want 1 and 3", migrators.Load(), ran.Load())
		}
	})
}

// The second migration itself cannot be stopped: it is complete, and nobody may take that for
// granted.
func TestALossStopsWhatFollowsAndLeavesTheVersionDirty(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		node := holdfasttest.Fleet(t, 1)[0]
		ran := 0
		d := migratelock.New(&watched{b.inner(t), func() {
			if ran++; ran == 2 {
				lose(t, node)
			}
		}}, node, lockName)
		m := b.migrator(t, d)
		if err := m.Up(); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Up: %v", err)
		}
		if err := m.Up(); !errors.Is(err, migrate.ErrLocked) {
			t.Errorf("Up after a loss: %v", err)
		}
		b.wantSteps(t, 2)
		next := b.migrator(t, migratelock.New(b.inner(t), node, lockName))
		var dirty migrate.ErrDirty
		if err := next.Up(); !errors.As(err, &dirty) || dirty.Version != 2 {
			t.Errorf("the next process: %v", err)
		}
	})
}

// lose takes the lock away from its holder, as an operator can.
func lose(t *testing.T, c *holdfast.Cluster) {
	t.Helper()
	info, err := c.Inspect(t.Context(), lockName)
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := c.ForceRelease(t.Context(), lockName, info.Holders[0].Token, "test"); err != nil {
		t.Fatal(err)
	}
}

func TestAfterALossNothingIsWritten(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	d := migratelock.New(inFile(t).inner(t), node, lockName)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	lose(t, node)
	for _, err := range []error{d.Run(strings.NewReader("CREATE TABLE late (x INTEGER)")), d.SetVersion(9, false), d.Drop(), d.Unlock()} {
		if !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
	}
	if version, _, err := d.Version(); version != database.NilVersion || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
}

func TestALockThatIsHeldIsSoForGolangMigrate(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	holder, other := migratelock.New(nil, node, lockName), migratelock.New(nil, node, lockName)
	if err := holder.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("a second Lock: %v", err)
	}
	// A busy group may need longer than the Wait to answer anything, and the driver says so rightly.
	err := holdfast.ErrNoQuorum
	for other.Wait = 50 * time.Millisecond; errors.Is(err, holdfast.ErrNoQuorum) && other.Wait < 10*time.Second; other.Wait *= 2 {
		err = other.Lock()
	}
	if !errors.Is(err, database.ErrLocked) || !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("Lock of another: %v", err)
	}
	if err := other.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("Unlock of another: %v", err)
	}
	if err := holder.Unlock(); err != nil {
		t.Error(err)
	}
	other.Wait = migrationtest.Patience
	if err := errors.Join(other.Lock(), other.Unlock()); err != nil {
		t.Error(err)
	}
}

// migrate.Migrate gives up at its LockTimeout without a word, and may leave a driver with a lock
// behind.
func TestCloseReleasesTheLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		node := holdfasttest.Fleet(t, 1)[0]
		d, err := migratelock.New(b.inner(t), node, lockName).Open(b.url)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Lock(), d.Close()); err != nil {
			t.Fatal(err)
		}
		if l, err := node.TryAcquire(t.Context(), lockName); err != nil {
			t.Error(err)
		} else if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// closer is a driver inside that can be closed.
type closer struct{ database.Driver }

func (closer) Close() error { return nil }

// within asserts what a call returns, and that it does not wait for somebody else.
func within(t *testing.T, what string, want error, call func() error) {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- call() }()
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(migrationtest.Patience):
		t.Errorf("%s still waits", what)
	}
}

// migrate.Migrate gives up at its LockTimeout and leaves a Lock behind that waits. When Lock kept the
// driver's mutex meanwhile, Close of a service that shuts down hung for the rest of Wait.
func TestCloseEndsALockThatWaits(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	holder, err := node.Acquire(t.Context(), lockName)
	if err != nil {
		t.Fatal(err)
	}
	d := migratelock.New(closer{}, node, lockName)
	d.Wait = 10 * migrationtest.Patience
	locked := make(chan error, 1)
	go func() { locked <- d.Lock() }()
	if err := migrationtest.AwaitWaiters(t.Context(), node, lockName, 1); err != nil {
		t.Error(err)
	}
	within(t, "Lock beside one that waits", database.ErrLocked, d.Lock)
	within(t, "Close", nil, d.Close)
	within(t, "the Lock that waited", migratelock.ErrClosed, func() error { return <-locked })
	within(t, "Lock after Close", migratelock.ErrClosed, d.Lock)
	if err := holder.Release(t.Context()); err != nil { // what waits without the mend ends
		t.Error(err)
	}
}

// Close comes when Acquire has the lease and Lock has not yet.
func TestALockGrantedWhileCloseRunsIsReleased(t *testing.T) {
	t.Parallel()
	var d *migratelock.Driver
	node, err := holdfast.Open(t.Context(), holdfast.Config{Events: holdfast.Events{
		Begin: func(ctx context.Context, s holdfast.Span) (context.Context, func(holdfast.Token, error)) {
			return ctx, func(holdfast.Token, error) {
				if s.Kind == holdfast.SpanAcquire {
					within(t, "Close", nil, d.Close)
				}
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	d = migratelock.New(closer{}, node, lockName)
	if err := d.Lock(); !errors.Is(err, migratelock.ErrClosed) {
		t.Errorf("Lock: %v", err)
	}
	if info, err := node.Inspect(t.Context(), lockName); err != nil || len(info.Holders) > 0 {
		t.Errorf("after Close: %v, %v", info.Holders, err)
	}
}

func TestOptionsThatEndTheExclusionAreRefused(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	for _, option := range []holdfast.Option{holdfast.WithManualRenew(), holdfast.WithShared(), holdfast.WithLimit(2), holdfast.WithTTL(1)} {
		if err := migratelock.New(nil, node, lockName, option).Lock(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a wrong option: %v", err)
		}
	}
	for what, err := range map[string]error{"no name": migratelock.New(nil, node, "").Lock(), "no cluster": migratelock.New(nil, nil, lockName).Lock()} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
