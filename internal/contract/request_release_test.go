package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestAHolderIsAskedToLetGoWithAReasonThoughTheRaftLeaderDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader, a, b := beside(s)
		l := get(t, a, "lock")
		leader.Crash()
		for _, reason := range []string{"maintenance at noon", "at once"} {
			if err := b.RequestRelease(until(time.Minute), "lock", l.Token(), reason); err != nil {
				t.Fatal(err)
			}
		}
		<-l.Wanted()
		if l.WantedReason() != "maintenance at noon" || !l.Valid() {
			t.Errorf("reason %q, valid %v", l.WantedReason(), l.Valid())
		}
		err := b.RequestRelease(until(time.Minute), "lock", l.Token()-1, "late")
		if want := fmt.Sprintf("%d of %q, which is held with %d", l.Token()-1, "lock", l.Token()); !errors.Is(err, holdfast.ErrStaleToken) || !strings.Contains(err.Error(), want) {
			t.Errorf("another token: %v", err)
		}
		if err := b.RequestRelease(until(time.Minute), "lock", l.Token(), ""); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("no reason: %v", err)
		}
	})
}

// Candidates always wait: a leader that let go for them would lead for no time at all.
func TestALeaderCanTellARequestFromCandidates(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		a, b := s.Node(0).Cluster(), s.Node(1).Cluster()
		first, err := a.Campaign(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		for !first.IsLeader() {
			time.Sleep(10 * time.Millisecond)
		}
		second, err := b.Campaign(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		for waiters := 0; waiters == 0; time.Sleep(10 * time.Millisecond) {
			info, err := a.Inspect(until(time.Minute), "job")
			if err != nil {
				t.Fatal(err)
			}
			waiters = len(info.Waiters)
		}
		l := first.Lease()
		select {
		case <-l.Wanted():
			t.Error("a candidate closed Wanted")
		default:
		}
		if err := b.RequestRelease(until(time.Minute), "job", l.Token(), "its machine is drained"); err != nil {
			t.Fatal(err)
		}
		<-l.Wanted()
		if l.WantedReason() != "its machine is drained" {
			t.Errorf("reason %q", l.WantedReason())
		}
		for _, k := range []*holdfast.Campaign{second, first} {
			if err := k.Close(until(time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAKeyThatIsForgottenRunsAgainAndOneThatRunsIsNotForgotten(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader, a, b := beside(s)
		runs := 0
		once := func(c *holdfast.Cluster) holdfast.OnceResult {
			r, err := c.Once(until(time.Minute), "mail", func(context.Context, *holdfast.Lease) error {
				runs++
				if err := b.ForgetOnce(until(time.Minute), "mail"); !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("while it runs: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if err := a.ForgetOnce(until(time.Minute), "mail"); err != nil {
			t.Errorf("a key that nobody has run: %v", err)
		}
		first := once(a)
		leader.Crash()
		for range 2 {
			if err := b.ForgetOnce(until(time.Minute), "mail"); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := b.InspectOnce(until(time.Minute), "mail"); err != nil || r.Finished || r.Token != 0 {
			t.Errorf("forgotten: %+v, %v", r, err)
		}
		if again := once(b); !again.Ran || again.Token <= first.Token || runs != 2 {
			t.Errorf("%+v after %+v, %d runs", again, first, runs)
		}
	})
}

func TestLeasesAreThoseOfThisProcessByName(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		a, b := s.Node(0).Cluster(), s.Node(1).Cluster()
		get(t, b, "another's")
		z, x := get(t, a, "z"), get(t, a, "x", holdfast.WithManualRenew())
		y := get(t, a, "y", holdfast.WithLimit(3))
		more := get(t, a, "y", holdfast.WithLimit(3))
		if err := get(t, a, "released").Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var got []holdfast.Token
		for _, l := range a.Leases() {
			got = append(got, l.Token())
		}
		if want := []holdfast.Token{x.Token(), y.Token(), more.Token(), z.Token()}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		_, err := b.Acquire(until(time.Minute), "y", holdfast.WithLimit(2))
		var limit *holdfast.LimitError
		if !errors.As(err, &limit) || limit.Name != "y" || limit.Asked != 2 || limit.InUse != 3 || !errors.Is(err, holdfast.ErrLimitMismatch) {
			t.Errorf("another limit: %v", err)
		}
		for _, opts := range [][]holdfast.Option{nil, {holdfast.WithShared()}} {
			_, err := b.Acquire(until(time.Minute), "y", opts...)
			if !errors.As(err, &limit) || limit.Asked != 0 || limit.Shared != (opts != nil) || limit.InUse != 3 {
				t.Errorf("a semaphore as a lock: %v", err)
			}
		}
		if _, err := b.Leader(until(time.Minute), "seat"); !errors.Is(err, holdfast.ErrNoLeader) || !strings.Contains(err.Error(), `"seat"`) {
			t.Errorf("a vacancy: %v", err)
		}
	})
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// Nobody releases a lease that nobody refers to, and it renews itself: its lock is stuck until
// somebody hears of it.
func TestALeaseThatIsDroppedWithoutReleaseIsToldOnce(t *testing.T) {
	log := &logged{more: make(chan struct{}, 1)}
	c := single(t, func(cfg *holdfast.Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	token := func() holdfast.Token { // in a frame of its own, which is gone
		l := acquire(t, c, "dropped")
		<-contextOf(l)
		release(t, acquire(t, c, "released"))
		acquire(t, c, "ends by itself", holdfast.WithManualRenew(), holdfast.WithTTL(time.Hour)) // not while a busy machine is slow
		return l.Token()
	}()
	kept := acquire(t, c, "kept")
	want := fmt.Sprintf("lock=dropped token=%d", token)
	for log.count(want) == 0 {
		runtime.GC()
		select {
		case <-log.more:
		case <-within(t, 10*time.Millisecond).Done():
		}
		if t.Context().Err() != nil {
			t.Fatal("not told")
		}
	}
	for range 3 {
		runtime.GC()
	}
	if n := log.count("dropped without Release"); n != 1 || log.count(want) != 1 {
		t.Errorf("told %d times:\n%s", n, log.text.String())
	}
	if all := c.Leases(); len(all) != 3 || all[0].Token() != token {
		t.Errorf("%d leases", len(all))
	} else if err := all[0].Release(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(kept)
}

// contextOf asks for all that a lease makes on demand, and whatever of it refers to the lease.
func contextOf(l *holdfast.Lease) <-chan struct{} {
	l.Context()
	l.Wanted()
	l.Jeopardy()
	done := make(chan struct{})
	close(done)
	return done
}
