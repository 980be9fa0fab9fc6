//go:build unix

package bothlocks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/bothlocks"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fromRedis is what docs/migrating.md shows.
func fromRedis(client *redislock.Client, ttl time.Duration) bothlocks.Old {
	return func(ctx context.Context, name string) (bothlocks.Held, error) {
		for {
			since := time.Now()
			l, err := client.Obtain(ctx, name, ttl, nil)
			switch {
			case err == nil:
				refresh := func(ctx context.Context) error {
					err := l.Refresh(ctx, ttl, nil)
					if errors.Is(err, redislock.ErrNotObtained) {
						return bothlocks.ErrOldLost
					}
					return err
				}
				return bothlocks.Renewed(since, ttl, refresh, l.Release), nil
			case !errors.Is(err, redislock.ErrNotObtained):
				return bothlocks.Held{}, err
			}
			select {
			case <-time.After(20 * time.Millisecond): // real time: Redis tells nobody that a lock is free
			case <-ctx.Done():
				return bothlocks.Held{}, ctx.Err()
			}
		}
	}
}

// do runs work under the lock of one kind of process.
type do func(ctx context.Context, work func() error) error

// section is what never has two in it.
type section struct {
	t      *testing.T
	inside atomic.Int32
	worked chan string // which kind of process
}

// worker runs one kind of process until stop is called.
func (s *section) worker(kind string, call do) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := call(ctx, func() error {
				if n := s.inside.Add(1); n != 1 {
					s.t.Errorf("%s has the lock, and %d others", kind, n-1)
				}
				select {
				case s.worked <- kind:
				case <-ctx.Done():
				}
				s.inside.Add(-1)
				return nil
			})
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("%s: %v", kind, err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// awaits waits until each kind has worked.
func (s *section) awaits(kinds ...string) {
	s.t.Helper()
	missing := make(map[string]bool)
	for _, kind := range kinds {
		missing[kind] = true
	}
	late := time.After(2 * time.Minute)
	for len(missing) > 0 {
		select {
		case kind := <-s.worked:
			delete(missing, kind)
		case <-late:
			s.t.Fatalf("%v never had the lock", missing)
		}
	}
}

// Three processes are replaced one by one, twice, under load, while Redis and Holdfast are real.
func TestAFleetMovesFromRedisWithoutTwoHolders(t *testing.T) {
	t.Parallel()
	server := serverstest.Start(t, servers.Redis)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	old := fromRedis(redislock.New(client), time.Minute) // longer than a busy machine stalls
	fleet := holdfasttest.Fleet(t, 3)
	s := &section{t: t, worked: make(chan string)}
	before := func(ctx context.Context, work func() error) error {
		held, err := old(ctx, "orders")
		if err != nil {
			return err
		}
		return errors.Join(work(), held.Release(context.WithoutCancel(ctx)))
	}
	var both, after [3]do
	for i, node := range fleet {
		locks := bothlocks.New(node, old)
		both[i] = func(ctx context.Context, work func() error) error {
			return locks.Do(ctx, "orders", func(context.Context, *holdfast.Lease) error { return work() }, holdfast.WithTTL(time.Minute))
		}
		after[i] = func(ctx context.Context, work func() error) error {
			return node.Do(ctx, "orders", func(context.Context, *holdfast.Lease) error { return work() }, holdfast.WithTTL(time.Minute))
		}
	}
	var stop [3]func()
	for i := range stop {
		stop[i] = s.worker("old", before)
	}
	s.awaits("old")
	for i := range stop {
		stop[i]()
		stop[i] = s.worker("both", both[i])
		s.awaits("both")
	}
	for i := range stop {
		stop[i]()
		stop[i] = s.worker("new", after[i])
		s.awaits("new")
	}
	for i := range stop {
		stop[i]()
	}
}

func TestTheLossOfEitherLockEndsTheWork(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	lost, released := make(chan struct{}), 0
	locks := bothlocks.New(node, func(context.Context, string) (bothlocks.Held, error) {
		return bothlocks.Held{Lost: lost, Release: func(context.Context) error { released++; return nil }}, nil
	})
	err := locks.Do(t.Context(), "a", func(ctx context.Context, l *holdfast.Lease) error {
		if err := node.ForceRelease(ctx, "a", l.Token(), "test"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, holdfast.ErrLost) || released != 1 {
		t.Errorf("the new lock is lost: %v, %d releases", err, released)
	}
	err = locks.Do(t.Context(), "a", func(ctx context.Context, _ *holdfast.Lease) error {
		close(lost)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, bothlocks.ErrOldLost) {
			t.Errorf("the context ended with %v", cause)
		}
		return nil
	})
	if !errors.Is(err, bothlocks.ErrOldLost) || released != 2 {
		t.Errorf("the old lock is lost: %v, %d releases", err, released)
	}
	// It was lost while the new one was waited for: the work began beside the next holder of the old one.
	err = locks.Do(t.Context(), "a", func(context.Context, *holdfast.Lease) error {
		t.Error("the work began without the old lock")
		return nil
	})
	if !errors.Is(err, bothlocks.ErrOldLost) || released != 3 {
		t.Errorf("the old lock was lost: %v, %d releases", err, released)
	}
}

func TestACallThatWaitsForTheNewLockEndsWithTheOldOne(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	other, err := node.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	locks := bothlocks.New(node, func(context.Context, string) (bothlocks.Held, error) {
		close(lost)
		return bothlocks.Held{Lost: lost, Release: func(context.Context) error { return nil }}, nil
	})
	err = locks.Do(t.Context(), "a", func(context.Context, *holdfast.Lease) error { return nil })
	if !errors.Is(err, bothlocks.ErrOldLost) || !other.Valid() {
		t.Error(err)
	}
}

// within is an answer after a while.
func within(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
	return context.Cause(context.WithoutCancel(ctx))
}

func TestAnOldLockIsLostInTimeWhateverItsSystemDoes(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	for name, c := range map[string]struct {
		refresh func(context.Context) error
		lost    time.Duration // 0: never
	}{
		"it answers":              {func(context.Context) error { return nil }, 0},
		"it is gone":              {func(context.Context) error { return errors.New("connection refused") }, 10 * time.Second},
		"it hangs":                {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, ttl},
		"its client hangs":        {func(context.Context) error { time.Sleep(time.Minute); return nil }, ttl}, // virtual time
		"the lock is another's":   {func(context.Context) error { return bothlocks.ErrOldLost }, 5 * time.Second},
		"it is slow, but answers": {func(ctx context.Context) error { return within(ctx, 4*time.Second) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				held := bothlocks.Renewed(begin, ttl, c.refresh, func(context.Context) error { return nil })
				var lost time.Duration
				select {
				case <-held.Lost:
					lost = time.Since(begin)
				case <-time.After(time.Hour):
				}
				if lost != c.lost {
					t.Errorf("lost after %v, want %v", lost, c.lost)
				}
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAReleaseDoesNotWaitForARefreshThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		held := bothlocks.Renewed(time.Now(), 15*time.Second,
			func(context.Context) error { <-answers; return nil },
			func(context.Context) error { t.Error("released during a refresh"); return nil })
		time.Sleep(6 * time.Second) // virtual time: the first refresh is under way
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := held.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(answers)
	})
}
