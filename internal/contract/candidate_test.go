package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A candidate that loses again and again must not hammer the group, nor come back at the same
// moments as others that lost with it. After a long tenure it begins anew with the shortest pause.
func TestACandidateThatLosesAgainAndAgainPausesLongerEachTimeAndByChance(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const first, most, losses, slack = 100 * time.Millisecond, 5 * time.Second, 10, 50 * time.Millisecond
		var pauses []time.Duration // after each loss
		var lost time.Time
		err := c.Lead(until(time.Hour), "seat", func(ctx context.Context, l *holdfast.Lease) error {
			if !lost.IsZero() {
				pauses = append(pauses, time.Since(lost))
			}
			switch len(pauses) {
			case losses + 1:
				return nil
			case losses:
				time.Sleep(2 * most)
			}
			if err := c.ForceRelease(until(time.Minute), "seat", l.Token(), "a test"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			lost = time.Now()
			return nil
		})
		if err != nil || len(pauses) != losses+1 {
			t.Fatalf("%v after %d losses", err, len(pauses))
		}
		least := 0
		for i, pause := range pauses {
			d := min(first<<i, most)
			if i == losses {
				d = first // after a long tenure
			}
			if pause < d/2 || pause > d+slack {
				t.Errorf("after loss %d it campaigned again after %v, want %v to %v", i+1, pause, d/2, d)
			}
			if pause < d/2+d/20+slack {
				least++
			}
		}
		if least == len(pauses) {
			t.Errorf("candidates that lost together come back together: %v", pauses)
		}
	})
}

// A leader that does not wait met the rest of its own term at its next campaign, and heard that the lock is
// held, though nobody led.
func TestALeaderThatDoesNotWaitLeadsAgainAfterItsOwnRest(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const most, rest, terms = time.Second, 8 * time.Second, 3
		for what, opt := range map[string]holdfast.Option{
			"delay":   holdfast.WithLockDelay(rest),
			"minimum": holdfast.WithMinHold(most + rest),
		} {
			led := 0
			began := time.Now()
			err := c.Lead(until(time.Hour), what, func(ctx context.Context, _ *holdfast.Lease) error {
				if led++; led < terms {
					<-ctx.Done()
				}
				return nil
			}, holdfast.WithNoWait(), holdfast.WithMaxHold(most), opt)
			if least := (terms - 1) * (most + rest); led != terms || err != nil || time.Since(began) < least {
				t.Errorf("%s: %d terms in %v, %v", what, led, time.Since(began), err)
			}
		}
		err := c.Lead(until(10*time.Second), "cut short", func(ctx context.Context, _ *holdfast.Lease) error {
			<-ctx.Done()
			return nil
		}, holdfast.WithNoWait(), holdfast.WithMaxHold(most), holdfast.WithLockDelay(time.Hour))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a campaign whose context ends in its rest: %v", err)
		}
		var other *holdfast.Lease
		err = c.Lead(until(time.Hour), "taken", func(ctx context.Context, _ *holdfast.Lease) error {
			<-ctx.Done()
			other = get(t, c, "taken")
			return nil
		}, holdfast.WithNoWait(), holdfast.WithMaxHold(most))
		if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.Token != other.Token() {
			t.Errorf("another holder leads with token %d: %v", other.Token(), err)
		}
	})
}

// A resigned leader's place that stays taken (WithMinHold) is a vacancy, whoever waits for it.
func TestAnElectionWithoutALeaderHasNoneThoughACandidateWaits(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	release(t, acquire(t, c, "seat", holdfast.WithMinHold(time.Hour)))
	waits := make(chan error, 1)
	go func() { waits <- c.Lead(ctx, "seat", nothing) }()
	eventually(t, c, "a candidate", func() bool {
		info, err := c.Inspect(ctx, "seat")
		return err == nil && len(info.Waiters) == 1
	})
	if l, err := c.Leader(ctx, "seat"); !errors.Is(err, holdfast.ErrNoLeader) {
		t.Errorf("%+v, %v", l, err)
	}
	for l, err := range c.Observe(ctx, "seat") {
		if err != nil || l.NodeID != "" {
			t.Errorf("%+v, %v", l, err)
		}
		break
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAnObserverThatDoesNotKeepUpIsToldTheLatestAllTheSame(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 60*time.Second)
	tell := pull(t, c.Observe(ctx, "seat"))
	tell()
	a := acquire(t, c, "seat")
	for range 100 { // 64 KiB each: more than the 4 MiB that may wait
		if err := a.Set(ctx, make([]byte, holdfast.ValueMax)); err != nil {
			t.Fatal(err)
		}
	}
	release(t, a)
	b := acquire(t, c, "seat", holdfast.WithValue([]byte("b")))
	for last := holdfast.Token(0); last != b.Token(); {
		l := tell()
		if l.NodeID == "" { // the vacancy between a and b, told where the news come late: on a client
			continue
		}
		if l.Token < last {
			t.Fatalf("token %d after %d", l.Token, last)
		}
		if last = l.Token; last == b.Token() && string(l.Value) != "b" {
			t.Errorf("the value is that of the leader before: %d bytes", len(l.Value))
		}
	}
	release(t, b)
	if l := tell(); l.NodeID != "" {
		t.Errorf("%+v", l)
	}
}

func TestAnObserverIsNotToldWhatWasBeforeItsFirstAnswer(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 20*time.Second)
	leaders := c.Observe(ctx, "seat") // begins with the call: these events wait for it already
	l := acquire(t, c, "seat", holdfast.WithValue([]byte("a")))
	if err := l.Set(ctx, []byte("b")); err != nil {
		t.Fatal(err)
	}
	tell := pull(t, leaders)
	if got := tell(); got.Token != l.Token() || string(got.Value) != "b" {
		t.Errorf("%+v", got)
	}
	if err := l.Set(ctx, []byte("c")); err != nil {
		t.Fatal(err)
	}
	if got := tell(); string(got.Value) != "c" {
		t.Errorf("an old value came back: %q", got.Value)
	}
}
