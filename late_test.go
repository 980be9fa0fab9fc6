package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/testlog"
)

// slowGroup is a group whose answers take a while.
type slowGroup struct {
	seam.Group
	answer   *atomic.Int64 // a time.Duration
	requests *atomic.Int64 // for locks
	log      *testlog.Lines
}

func (g slowGroup) Propose(ctx context.Context, class seam.Class, cmd []byte) (fsm.Outcome, bool, error) {
	if class == seam.Request {
		g.requests.Add(1)
	}
	out, unknown, err := g.Group.Propose(ctx, class, cmd)
	select {
	case <-time.After(time.Duration(g.answer.Load())):
		return out, unknown, err
	case <-ctx.Done():
		return fsm.Outcome{}, false, &seam.UnknownError{Cause: &seam.UnreachedError{Ended: ctx.Err()}}
	}
}

// slowly runs f on a node whose group is slow.
func slowly(t *testing.T, f func(*testing.T, *Cluster, slowGroup)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := new(testlog.Lines)
		g := slowGroup{answer: new(atomic.Int64), requests: new(atomic.Int64), log: lines}
		c := openAround(t, lines.Logger(slog.LevelWarn), func(inner seam.Group) seam.Group {
			g.Group = inner
			return g
		})
		defer c.Close()
		f(t, c, g)
	})
}

// A lock was granted and given back some eight times a second for as long as the context of the call went on,
// and the error said nothing but that no majority had answered.
func TestACallWhoseTTLIsTooShortForItsGroupAsksSeldomAndSaysSo(t *testing.T) {
	slowly(t, func(t *testing.T, c *Cluster, g slowGroup) {
		g.answer.Store(int64(150 * time.Millisecond))
		short := WithTTL(TTLMin)
		for name, call := range map[string]func(context.Context) error{
			"Acquire":    func(ctx context.Context) error { _, err := c.Acquire(ctx, "a", short); return err },
			"TryAcquire": func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "b", short); return err },
			"manual": func(ctx context.Context) error {
				_, err := c.TryAcquire(ctx, "c", short, WithManualRenew())
				return err
			},
			"Do":   func(ctx context.Context) error { return c.Do(ctx, "d", succeeds, short) },
			"Once": func(ctx context.Context) error { _, err := c.Once(ctx, "e", succeeds, short); return err },
		} {
			before, told := g.requests.Load(), len(g.log.Of("a call gets no lease"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := call(ctx)
			cancel()
			if !errors.Is(err, ErrExpired) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) {
				t.Errorf("%s: %v", name, err)
			} else if text := err.Error(); !strings.Contains(text, "100ms") || !strings.Contains(text, "150ms") {
				t.Errorf("%s: the text names not both times: %v", name, err)
			}
			if sent := g.requests.Load() - before; sent > 150 { // a lap each 150 ms would be 400
				t.Errorf("%s: %d requests", name, sent)
			}
			if told := len(g.log.Of("a call gets no lease", "name=")) - told; told != 1 {
				t.Errorf("%s: the log says it %d times", name, told)
			}
		}
	})
}

func succeeds(context.Context, *Lease) error { return nil }

func TestADeadlineAfterALateAnswerSaysThatItWasLate(t *testing.T) {
	slowly(t, func(t *testing.T, c *Cluster, g slowGroup) {
		g.answer.Store(int64(150 * time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := c.Acquire(ctx, "x", WithTTL(TTLMin)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrExpired) {
			t.Error(err)
		}
	})
}

// A service that waits without a deadline ended when three answers in a row were late: a fault that passes.
func TestACallWaitsUntilTheAnswersComeInTime(t *testing.T) {
	slowly(t, func(t *testing.T, c *Cluster, g slowGroup) {
		g.answer.Store(int64(time.Minute))
		time.AfterFunc(10*time.Minute, func() { g.answer.Store(0) }) // of the next answers
		l, err := c.Acquire(t.Context(), "x")
		if err != nil || !l.Valid() {
			t.Fatal(err)
		}
	})
}

// A slow minute ends no candidacy, and no wait that cannot tell an error.
func TestCandidatesAndLockersWaitUntilTheAnswersComeInTime(t *testing.T) {
	slowly(t, func(t *testing.T, c *Cluster, g slowGroup) {
		g.answer.Store(int64(150 * time.Millisecond))
		k, err := c.Campaign(t.Context(), "election", WithTTL(TTLMin))
		if err != nil {
			t.Fatal(err)
		}
		locker, err := c.Locker("lock", func(err error) { t.Error(err) }, WithTTL(TTLMin))
		if err != nil {
			t.Fatal(err)
		}
		if locker.TryLock() {
			t.Error("locked by a lease that was over")
		}
		time.AfterFunc(time.Minute, func() { g.answer.Store(0) })
		locker.Lock()
		if locker.Token() == 0 {
			t.Error("locked without a lease")
		}
		locker.Unlock()
		time.Sleep(campaignPauseMax)
		if !k.IsLeader() {
			t.Error("the candidate does not lead: ", k.Err())
		}
		if sent := g.requests.Load(); sent > 300 { // a lap each 150 ms would be 800
			t.Errorf("%d requests", sent)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
