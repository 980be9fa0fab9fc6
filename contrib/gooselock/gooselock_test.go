//go:build unix

package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/gooselock"
	"github.com/holdfast-go/holdfast/contrib/internal/migrationtest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

const lockName = "schema"

// Two providers of each node share a locker, and use it in both of goose's ways. The second
// migration waits until the other nodes wait for the lock, so their runs overlap. None runs before
// all have looked what is pending: goose makes its table then, without the lock, and with SQLite
// that waits for the end of the migration. The first error ends all runs: what they wait for may
// never come then.
func TestOfAFleetThatStartsTogetherEachMigrationRunsOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		var applied atomic.Int64
		nodes := holdfasttest.Fleet(t, 3)
		second := func(ctx context.Context, tx *sql.Tx) error {
			if err := migrationtest.AwaitWaiters(ctx, nodes[0], lockName, 2); err != nil {
				return err
			}
			if b.fence != fence.Postgres {
				return nil
			}
			var locks int
			err := tx.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks)
			if locks > 0 {
				t.Errorf("%d session locks are held in the database", locks)
			}
			return err
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var wg, looked sync.WaitGroup
		for _, node := range nodes {
			locker := gooselock.New(node, lockName)
			for _, option := range []goose.ProviderOption{goose.WithLocker(locker), goose.WithSessionLocker(locker)} {
				p := b.provider(t, b.open(t), second, option, goose.WithStore(b.store(t)))
				looked.Add(1)
				wg.Go(func() {
					pending, err := p.HasPending(ctx)
					looked.Done()
					looked.Wait()
					results, err2 := p.Up(ctx)
					if err := errors.Join(err, err2); err != nil || !pending {
						t.Errorf("pending %v, %v", pending, err)
						end()
					}
					applied.Add(int64(len(results)))
				})
			}
		}
		wg.Wait()
		wantSteps(t, b.open(t), 3, 2, 3)
		if applied.Load() != 3 {
			t.Errorf("six providers have applied %d migrations, want 3", applied.Load())
		}
	})
}

// losing takes the lock away from its holder, as an operator can.
func losing(t *testing.T, c *holdfast.Cluster, token holdfast.Token) {
	t.Helper()
	if err := c.ForceRelease(t.Context(), lockName, token, "test"); err != nil {
		t.Error(err)
	}
}

func TestALossEndsTheMigrationThatRunsAndThoseThatFollow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		node := holdfasttest.Fleet(t, 1)[0]
		locker := gooselock.New(node, lockName)
		p := b.provider(t, b.open(t), func(ctx context.Context, tx *sql.Tx) error {
			losing(t, node, locker.Token())
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
				t.Errorf("the context ended for %v", context.Cause(ctx))
			}
			return nil // it takes no notice
		}, goose.WithLocker(locker), goose.WithStore(b.store(t)))
		bounded, stop := context.WithTimeout(t.Context(), migrationtest.Patience)
		defer stop()
		ctx, cancel := gooselock.Context(bounded)
		defer cancel()
		if _, err := p.Up(ctx); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Up: %v", err)
		}
		if token := locker.Token(); token != 0 {
			t.Errorf("after the loss the token is %v", token)
		}
		wantSteps(t, b.open(t), 1)
	})
}

// stopped is a provider's call that has come to its second migration and stays there, as a process
// that is stopped.
type stopped struct {
	arrived, goOn chan struct{}
	result        chan error
}

func newStopped() *stopped {
	return &stopped{make(chan struct{}), make(chan struct{}), make(chan error, 1)}
}

func (s *stopped) wait() {
	close(s.arrived)
	<-s.goOn
}

// Its context tells the former holder nothing, as if it were stopped for the whole time.
func TestWhatAFormerHolderStillMigratesIsRolledBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		if b.fence == fence.SQLite {
			t.Skip("a transaction of SQLite that has begun to write keeps the next holder out by itself")
		}
		node := holdfasttest.Fleet(t, 1)[0]
		db := b.open(t)
		former, next := gooselock.New(node, lockName), gooselock.New(node, lockName)
		s := newStopped()
		late := b.provider(t, db, func(context.Context, *sql.Tx) error {
			s.wait()
			return nil
		}, goose.WithLocker(former), goose.WithStore(former.Fence(b.store(t), b.guard(t, db))))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := late.Up(t.Context())
			s.result <- err
		})
		<-s.arrived
		losing(t, node, former.Token())
		p := b.provider(t, db, nothing, goose.WithLocker(next), goose.WithStore(next.Fence(b.store(t), b.guard(t, db))))
		if results, err := p.Up(t.Context()); err != nil || len(results) != 2 {
			t.Errorf("the next holder: %d migrations, %v", len(results), err)
		}
		close(s.goOn)
		if err := <-s.result; !errors.Is(err, fence.ErrStale) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the former holder: %v", err)
		}
		wg.Wait()
		wantSteps(t, db, 3, 2, 3)
	})
}

// lateStore is a store that waits before it writes a version: the check of the token has passed,
// the commit has not.
type lateStore struct {
	database.Store
	wait func()
}

func (s lateStore) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	if req.Version == 2 {
		s.wait()
	}
	return s.Store.Insert(ctx, db, req)
}

// readStore is a store that counts how often the versions were read under the lock: goose also
// looks without, whether anything is to do.
type readStore struct {
	database.Store
	locker *gooselock.Locker
	reads  *int
}

func (s readStore) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	if s.locker.Token() != 0 {
		*s.reads++
	}
	return s.Store.ListMigrations(ctx, db)
}

func (s readStore) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	return s.Store.(database.StoreExtender).TableExists(ctx, db)
}

// The next holder's database fails what would wait, so that this is seen.
func TestTheNextHolderReadsNoVersionsWhileAMigrationIsAboutToCommit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b base) {
		node := holdfasttest.Fleet(t, 1)[0]
		db, impatient := b.open(t), b.impatient(t)
		former, next := gooselock.New(node, lockName), gooselock.New(node, lockName)
		s := newStopped()
		late := b.provider(t, db, nothing, goose.WithLocker(former),
			goose.WithStore(former.Fence(lateStore{b.store(t), s.wait}, b.guard(t, db))))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := late.Up(t.Context())
			s.result <- err
		})
		<-s.arrived
		losing(t, node, former.Token())
		reads := 0
		p := b.provider(t, impatient, nothing, goose.WithLocker(next),
			goose.WithStore(next.Fence(readStore{b.store(t), next, &reads}, b.guard(t, impatient))))
		if _, err := p.Up(t.Context()); err == nil || reads != 0 {
			t.Errorf("before the commit: %v, %d reads", err, reads)
		}
		close(s.goOn)
		if err := <-s.result; !errors.Is(err, holdfast.ErrLost) || errors.Is(err, fence.ErrStale) {
			t.Errorf("the former holder: %v", err)
		}
		wg.Wait()
		if results, err := p.Up(t.Context()); err != nil || len(results) != 0 {
			t.Errorf("after the commit: %d migrations, %v", len(results), err)
		}
		wantSteps(t, db, 3, 2, 3)
	})
}

func TestWhoGivesUpWaitingDoesNotHoldTheLock(t *testing.T) {
	t.Parallel()
	nodes := holdfasttest.Fleet(t, 1)
	holder, same := gooselock.New(nodes[0], lockName), gooselock.New(nodes[0], lockName)
	if err := holder.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if holder.Token() == 0 {
		t.Error("the holder has no token")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, l := range []*gooselock.Locker{holder, same} { // in the turn of the locker, and in the queue of the lock
		if err := l.Lock(ended, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
	}
	if err := same.Unlock(t.Context(), nil); !errors.Is(err, gooselock.ErrNotLocked) {
		t.Errorf("Unlock without a lock: %v", err)
	}
	if err := holder.Unlock(ended, nil); err != nil {
		t.Errorf("Unlock under a context that has ended: %v", err)
	}
	for _, l := range []*gooselock.Locker{holder, same} {
		if err := errors.Join(l.SessionLock(t.Context(), nil), l.SessionUnlock(t.Context(), nil)); err != nil {
			t.Error(err)
		}
	}
}

func TestOptionsThatEndTheExclusionAreRefused(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	for _, option := range []holdfast.Option{holdfast.WithManualRenew(), holdfast.WithShared(), holdfast.WithLimit(2), holdfast.WithTTL(1)} {
		if err := gooselock.New(node, lockName, option).Lock(t.Context(), nil); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a wrong option: %v", err)
		}
	}
	for what, err := range map[string]error{
		"no name":    gooselock.New(node, "").SessionLock(t.Context(), nil),
		"no cluster": gooselock.New(nil, lockName).Lock(t.Context(), nil),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
