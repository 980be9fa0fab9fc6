package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

// runs is what a job of Every did, in the order of its beginnings.
type runs struct {
	mu   sync.Mutex
	list []*slotRun
}

type slotRun struct {
	node  int
	slot  time.Time
	began time.Time
	token holdfast.Token
	done  bool
}

// job is a function for Every on a node, which works for so long and notes what it did.
func (r *runs) job(n *sim.Node, work time.Duration) func(context.Context, time.Time, *holdfast.Lease) error {
	return func(ctx context.Context, slot time.Time, l *holdfast.Lease) error {
		<-n.Awake()
		if !l.Valid() { // a stopped process that wakes up sees this first
			return l.Err()
		}
		run := &slotRun{node: n.Index(), slot: slot, began: time.Now(), token: l.Token()}
		r.mu.Lock()
		r.list = append(r.list, run)
		r.mu.Unlock()
		select {
		case <-time.After(work):
		case <-ctx.Done():
			return ctx.Err()
		}
		<-n.Awake()
		r.mu.Lock()
		defer r.mu.Unlock()
		run.done = l.Valid() && n.Cluster() != nil
		return ctx.Err()
	}
}

// all returns the runs, and checks what holds for each schedule: the slots are on its instants, no
// slot that was done is run again, and the tokens rise.
func (r *runs) all(t *testing.T, every time.Duration) []slotRun {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []slotRun
	for i, run := range r.list {
		if run.slot.UnixNano()%int64(every) != 0 || run.slot.Location() != time.UTC {
			t.Errorf("%v is no slot of the schedule", run.slot)
		}
		for _, former := range r.list[:i] {
			if former.done && !run.slot.After(former.slot) || former.token > run.token {
				t.Errorf("slot %v ran with token %d after %v with %d", run.slot, run.token, former.slot, former.token)
			}
		}
		list = append(list, *run)
	}
	return list
}

// keeps is a Service that runs a job of Every on each node.
func (r *runs) keeps(every, work time.Duration) func(context.Context, *sim.Node, *holdfast.Cluster) error {
	return func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
		return c.Every(ctx, "report", every, r.job(n, work), holdfast.WithTTL(5*time.Second))
	}
}

// running waits until a slot runs, and returns its run.
func (r *runs) running(t *testing.T) slotRun {
	t.Helper()
	r.mu.Lock()
	before := len(r.list)
	r.mu.Unlock()
	var run slotRun
	for began := time.Now(); time.Since(began) < 2*time.Hour; time.Sleep(100 * time.Millisecond) {
		r.mu.Lock()
		if len(r.list) > before {
			run = *r.list[len(r.list)-1]
		}
		r.mu.Unlock()
		if run.token != 0 {
			return run
		}
	}
	t.Fatal("no slot ran for two hours")
	return run
}

// Each slot runs once: the leader is killed in the middle of one, then stopped for longer than its
// lease in another. The next leader repeats the two, and no other.
func TestEverySlotRunsOnceThoughTheLeaderIsKilledOrStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	var r runs
	const every = time.Minute
	sim.Run(t, sim.Options{Nodes: 3, Service: r.keeps(every, 2*time.Second)}, func(s *sim.Sim) {
		first := r.running(t)
		killed := r.running(t)
		if killed.slot.Sub(first.slot) != every || killed.began.Sub(killed.slot) > time.Second {
			t.Errorf("%v ran at %v after %v", killed.slot, killed.began, first.slot)
		}
		s.Node(killed.node).Kill()
		again := r.running(t)
		if !again.slot.Equal(killed.slot) || again.token <= killed.token {
			t.Errorf("after %+v came %+v", killed, again)
		}
		s.Node(killed.node).Open()
		paused := r.running(t)
		s.Node(paused.node).Pause()
		again = r.running(t)
		if !again.slot.Equal(paused.slot) || again.token <= paused.token || again.node == paused.node {
			t.Errorf("after %+v came %+v", paused, again)
		}
		s.Node(paused.node).Resume()
		time.Sleep(5 * every)
		done := 0
		for _, run := range r.all(t, every) {
			if run.done {
				done++
			}
		}
		if want := int(time.Since(first.slot)/every) + 1; done != want {
			t.Errorf("%d slots are done, want %d", done, want)
		}
	})
}

// A fleet that was down runs the latest slot that it missed, and no slot twice.
func TestARestartedFleetRunsTheLatestMissedSlotAndNoneTwice(t *testing.T) {
	t.Parallel()
	var r runs
	const every = 5 * time.Minute
	sim.Run(t, sim.Options{Nodes: 3, Service: r.keeps(every, time.Second)}, func(s *sim.Sim) {
		down := func(d time.Duration) {
			for _, n := range s.Nodes() {
				n.Close()
			}
			time.Sleep(d)
			for _, n := range s.Nodes() {
				n.Open()
			}
		}
		if opened := time.Now(); r.running(t).began.Sub(opened) < every/2 {
			t.Error("a new job ran a slot before it began")
		}
		time.Sleep(time.Minute)
		down(time.Minute) // no slot comes
		next := r.running(t)
		time.Sleep(time.Minute)
		down(3 * every) // three come
		late := r.running(t)
		if late.slot.Sub(next.slot) != 3*every || late.began.Sub(late.slot) < time.Minute {
			t.Errorf("after %v and three periods %v ran at %v", next.slot, late.slot, late.began)
		}
		if on := r.running(t); on.slot.Sub(late.slot) != every || on.began.Sub(on.slot) > time.Second {
			t.Errorf("after %v ran %v at %v", late.slot, on.slot, on.began)
		}
		if list := r.all(t, every); len(list) != 4 {
			t.Errorf("%d runs", len(list))
		}
	})
}

// A quota of values has no room for the record of a slot: the job would not run anywhere, and nobody
// would know.
func TestAJobWhoseSlotCannotBeRecordedSaysSo(t *testing.T) {
	t.Parallel()
	var r runs
	var log testlog.Lines
	const every = 10 * time.Minute
	sim.Run(t, sim.Options{Logger: log.Logger(slog.LevelWarn), Service: r.keeps(every, time.Second)}, func(s *sim.Sim) {
		time.Sleep(2 * time.Hour) // a new group has quotas after an hour
		if err := s.Node(0).Cluster().SetQuota(until(time.Minute), holdfast.Quota{Node: holdfast.EachNode, ValueBytes: 1}, "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * every)
		if told := log.Of("a job stands still"); len(told) < 5 || len(told) > 20 || !strings.Contains(told[0], "limit reached") {
			t.Errorf("%d lines: %q", len(told), told)
		}
	})
}

// A run that takes two and a half periods: the slots that come meanwhile do not run beside it; the
// latest runs after it.
func TestARunLongerThanItsPeriodIsToldAndNeverOverlaps(t *testing.T) {
	t.Parallel()
	var r runs
	var log testlog.Lines
	const every, work = time.Minute, 150 * time.Second
	sim.Run(t, sim.Options{Logger: log.Logger(slog.LevelWarn), Service: r.keeps(every, work)}, func(*sim.Sim) {
		first, second, third := r.running(t), r.running(t), r.running(t)
		if second.slot.Sub(first.slot) != 2*every || second.began.Sub(first.began) < work || third.slot.Sub(second.slot) < 2*every {
			t.Errorf("%+v, then %+v and %+v", first, second, third)
		}
		if late, skipped := len(log.Of("goes on past its next slot")), len(log.Of("slots of a job were skipped")); late != 2 || skipped != 2 {
			t.Errorf("told %d times that a run is late, and %d times that slots are skipped", late, skipped)
		}
		r.all(t, every)
	})
}

// The leader's wall clock is set forward and back. No slot that was done runs again, and the job
// goes on where the clock agrees with the record again.
func TestStepsOfTheWallClockRunNoSlotTwice(t *testing.T) {
	t.Parallel()
	var r runs
	var log testlog.Lines
	const every = 5 * time.Minute
	sim.Run(t, sim.Options{Logger: log.Logger(slog.LevelWarn), Service: r.keeps(every, time.Second)}, func(s *sim.Sim) {
		n := s.Node(0)
		first := r.running(t)
		for _, ahead := range []time.Duration{2 * time.Minute, -time.Minute, 0} { // within a period
			n.WallClock(ahead)
			time.Sleep(time.Minute)
		}
		n.WallClock(every)
		early := r.running(t)
		if since := early.began.Sub(first.began); early.slot.Sub(first.slot) != every || since > every {
			t.Errorf("%v after the first, slot %v after %v ran", since, early.slot, first.slot)
		}
		n.WallClock(-every) // the record is ahead by more than a period
		time.Sleep(every / 2)
		if len(log.Of("lies ahead of this node's clock")) == 0 {
			t.Error("nobody was told that a clock is wrong")
		}
		if list := r.all(t, every); len(list) != 2 {
			t.Errorf("%d runs while the record lies ahead", len(list))
		}
		n.WallClock(0)
		if on := r.running(t); on.slot.Sub(early.slot) != every || on.began.Sub(on.slot) > time.Second {
			t.Errorf("after %v ran %v at %v", early.slot, on.slot, on.began)
		}
		n.WallClock(-10 * every)
		time.Sleep(2 * time.Minute) // for the leader to let go
		forgot, err := n.Cluster().Acquire(until(5*time.Minute), "report", holdfast.WithValue(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := forgot.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		if on := r.running(t); on.began.Sub(on.slot) < 10*every {
			t.Errorf("the record is forgotten, and %v ran at %v", on.slot, on.began)
		}
	})
}

// A run that fails is repeated with pauses until it succeeds; one that is told to stop leaves its
// slot to the next leader.
func TestAFailedRunIsRepeatedAndAStoppedOneIsLeftToTheNextLeader(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const every = time.Minute
		ctx, stop := context.WithCancel(s.Node(0).Context())
		var slots []time.Time
		mine := errors.New("mine")
		err := s.Node(0).Cluster().Every(ctx, "report", every, func(ctx context.Context, slot time.Time, _ *holdfast.Lease) error {
			slots = append(slots, slot)
			if len(slots) == 4 {
				stop()
			}
			return mine
		})
		if len(slots) != 4 || !slots[3].Equal(slots[0]) || time.Since(slots[0]) < 7*time.Second || !errors.Is(err, mine) {
			t.Errorf("%v by %v, %v", slots, time.Now(), err)
		}
		began := time.Now()
		ctx, stop = context.WithCancel(s.Node(1).Context())
		err = s.Node(1).Cluster().Every(ctx, "report", every, func(ctx context.Context, slot time.Time, _ *holdfast.Lease) error {
			slots = append(slots, slot)
			if len(slots) == 6 {
				stop()
			}
			return nil
		})
		if len(slots) != 6 || !slots[4].Equal(slots[0]) || slots[5].Sub(slots[4]) != every || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", slots, err)
		}
		if took := time.Since(began); took > every {
			t.Errorf("the next leader took %v", took)
		}
		info, err := s.Node(2).Cluster().Inspect(until(time.Minute), "report")
		if want, _ := slots[5].MarshalText(); err != nil || string(info.Value) != string(want) || len(info.Holders) > 0 {
			t.Errorf("recorded is %s, %v", info.Value, err)
		}
	})
}

// A job failed until ten minutes before midnight, when its pauses had grown to three hours: the run of
// midnight began an hour and a half late, without a word. A suspension made such a pause longer by its length.
func TestThePauseAfterAFailedRunEndsWithTheNextSlot(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Config: longTTL}, func(s *sim.Sim) {
		const every, asleep, look, slack = time.Hour, 20 * time.Minute, 10 * time.Second, time.Second
		n := s.Node(0)
		var slots, began []time.Time // of the first run of each slot
		var woke time.Time
		ctx, stop := context.WithCancel(n.Context())
		err := n.Cluster().Every(ctx, "report", every, func(_ context.Context, slot time.Time, _ *holdfast.Lease) error {
			if len(slots) == 0 || !slot.Equal(slots[len(slots)-1]) {
				slots, began = append(slots, slot), append(began, time.Now())
			}
			switch {
			case len(slots) == 3:
				stop()
			case len(slots) == 2 && woke.IsZero() && time.Since(slot) > every*3/4:
				woke = time.Now().Add(time.Minute) // in the pause, after the third slot
				time.AfterFunc(time.Minute, func() {
					n.Suspend(asleep)
					n.WallClock(asleep)
				})
			}
			return errors.New("its dependency is down")
		}, holdfast.WithTTL(time.Hour))
		if len(slots) != 3 || slots[1].Sub(slots[0]) != every || slots[2].Sub(slots[1]) != every {
			t.Fatalf("slots %v: %v", slots, err)
		}
		if late := began[1].Sub(slots[1]); late > slack {
			t.Errorf("the second slot began %v late", late)
		}
		if late := began[2].Sub(woke); late < 0 || late > look+slack {
			t.Errorf("the third slot, which came in a suspension, began %v after that", late)
		}
	})
}

// A record of the year 1, as somebody writes it to begin anew, was taken for one ahead of all clocks: the
// difference is more than a Duration has.
func TestARecordOfLongAgoIsNoneAhead(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 1}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		l, err := c.Acquire(until(time.Minute), "report", holdfast.WithValue([]byte("0001-01-01T00:00:00Z")))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(s.Node(0).Context(), 5*time.Minute)
		ran := false
		err = c.Every(ctx, "report", time.Minute, func(context.Context, time.Time, *holdfast.Lease) error {
			ran = true
			stop()
			return nil
		})
		if !ran {
			t.Errorf("no slot ran: %v", err)
		}
		stop()
	})
}

func TestEveryRefusesWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 20*time.Second)
	fn := func(context.Context, time.Time, *holdfast.Lease) error { return nil }
	release(t, acquire(t, c, "taken", holdfast.WithValue([]byte("an address"))))
	for what, err := range map[string]error{
		"a function that is nil":            c.Every(ctx, "job", time.Minute, nil),
		"a period that is too short":        c.Every(ctx, "job", time.Millisecond, fn),
		"a job without a name":              c.Every(ctx, "", time.Minute, fn),
		"an election that publishes itself": c.Every(ctx, "taken", time.Minute, fn),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
