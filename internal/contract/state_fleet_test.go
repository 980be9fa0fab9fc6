package contract_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// What a fleet knows and tells of its locks while the raft leader dies.

// A holder writes checkpoints while the raft leader dies, and then dies itself. The next one finds
// the last of them that was acknowledged, or the one that was on its way; and nothing of what comes
// too late.
func TestTheNextHolderFindsTheLastCheckpointWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		l := get(t, a, "job", holdfast.WithTTL(3*time.Second), holdfast.WithValue([]byte("0")))
		acknowledged, tried := 0, 0
		over := make(chan error)
		go func() {
			for {
				if err := l.Set(until(time.Minute), []byte(strconv.Itoa(tried+1))); err != nil {
					over <- err
					return
				}
				tried++
				acknowledged = tried
				time.Sleep(20 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		leader.Crash()
		time.Sleep(3 * time.Second)
		leader.Open()
		leader.Ready()
		holder := s.Node((leader.Index() + 1) % 3)
		holder.Isolate()
		next := get(t, b, "job")
		info, err := b.Inspect(until(time.Minute), "job")
		if err != nil {
			t.Fatal(err)
		}
		holder.Rejoin()
		if err := <-over; !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the stale holder was told %v", err)
		}
		found, err := strconv.Atoi(string(info.Value))
		if err != nil || found < acknowledged || found > tried+1 || acknowledged < 50 {
			t.Errorf("%d was found, %d had been acknowledged, %d tried: %v", found, acknowledged, tried+1, err)
		}
		if after, err := a.Inspect(until(time.Minute), "job"); err != nil || string(after.Value) != string(info.Value) || next.Err() != nil {
			t.Errorf("after the return of the stale holder: %+v, %v", after, err)
		}
	})
}

// ForceRelease is under way when the raft leader dies: it is carried out, once, and everybody is
// told why.
func TestAForcedReleaseIsCarriedOutWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		l := get(t, a, "stuck")
		next := queued(t, b, "stuck")
		freed := make(chan error, 1)
		s.Partition([]int{leader.Index()}, []int{(leader.Index() + 1) % 3, (leader.Index() + 2) % 3})
		go func() { freed <- b.ForceRelease(until(time.Minute), "stuck", l.Token(), "it hangs") }()
		time.Sleep(50 * time.Millisecond)
		leader.Crash()
		if err := <-freed; err != nil {
			t.Errorf("ForceRelease: %v", err)
		}
		<-l.Done()
		if err := l.Err(); !errors.Is(err, holdfast.ErrForced) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the holder was told %v", err)
		}
		second := <-next
		if err := a.ForceRelease(until(time.Minute), "stuck", l.Token(), "again"); !errors.Is(err, holdfast.ErrStaleToken) {
			t.Errorf("of a token that was freed: %v", err)
		}
		if err := a.Verify(until(time.Minute), "stuck", second.Token()); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		info, err := a.Inspect(until(time.Minute), "stuck")
		if err != nil || len(info.Past) != 1 || info.Past[0].How != holdfast.EventForced || info.Past[0].Token != l.Token() {
			t.Errorf("%+v, %v", info.Past, err)
		}
	})
}

// Reads that are asked for while there is no raft leader wait for the next one and tell what is
// true then.
func TestReadsWaitForTheNextRaftLeaderAndAreCurrent(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		const ttl = 3 * time.Second
		dead := get(t, leader.Cluster(), "{r}dead", holdfast.WithTTL(ttl))
		x := get(t, a, "{r}x", holdfast.WithLabel("a"))
		first := queued(t, a, "{r}dead")
		second := queued(t, b, "{r}dead", holdfast.WithLabel("second"))
		leader.Crash()
		why, err := b.WhyBlocked(until(time.Minute), "{r}dead")
		if err != nil || len(why.Holders) != 1 || why.Holders[0].Token != dead.Token() || why.Waiting != 1 || len(why.Before) != 1 ||
			why.Holders[0].Remaining > ttl+lateMax {
			t.Errorf("%+v, %v", why, err)
		}
		var names []string
		for info, err := range b.Locks(until(time.Minute), "{r}") {
			if err != nil || len(info.Holders) != 1 {
				t.Errorf("%+v, %v", info, err)
			}
			names = append(names, info.Name)
		}
		if len(names) != 2 || names[0] != "{r}dead" || names[1] != "{r}x" {
			t.Errorf("listed %q", names)
		}
		if err := b.Verify(until(time.Minute), "{r}x", x.Token()); err != nil {
			t.Error(err)
		}
		l := <-first
		info, err := b.Inspect(until(time.Minute), "{r}dead")
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != l.Token() || len(info.Waiters) != 1 || info.Waiters[0].Label != "second" ||
			len(info.Past) != 1 || info.Past[0].How != holdfast.EventExpired {
			t.Errorf("%+v, %v", info, err)
		}
		select {
		case <-l.Wanted():
		default:
			t.Error("the new holder was not told that somebody waits")
		}
		give(t, l)
		<-second
	})
}

// Two callers wait for each other. After the death of the raft leader the cycle is still seen, and
// who would close another one is refused.
func TestACycleIsSeenWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		x, y := get(t, a, "x"), get(t, b, "y")
		ctx, cancel := context.WithCancel(x.Context())
		waits := make(chan error, 1)
		go func() {
			_, err := a.Acquire(ctx, "y")
			waits <- err
		}()
		<-y.Wanted()
		leader.Crash()
		if _, err := b.Acquire(y.Context(), "x", holdfast.WithDeadlockCheck()); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("who would close the cycle was told %v", err)
		}
		other, stop := context.WithTimeout(y.Context(), 10*time.Second)
		defer stop()
		closed := make(chan error, 1)
		go func() {
			_, err := b.Acquire(other, "x")
			closed <- err
		}()
		time.Sleep(5 * time.Second)
		why, err := a.WhyBlocked(until(time.Minute), "x")
		if err != nil || len(why.Cycles) != 1 || len(why.Cycles[0]) != 2 {
			t.Errorf("%+v, %v", why, err)
		}
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("the second was told %v", err)
		}
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("the first was told %v", err)
		}
		time.Sleep(time.Second) // what was given up is withdrawn in the background
		why, err = a.WhyBlocked(until(time.Minute), "x")
		if err != nil || len(why.Cycles) != 0 || why.Waiting != 0 || len(why.Before) != 0 {
			t.Errorf("%+v, %v", why, err)
		}
	})
}

// The runner of a key dies with the raft leader: who waits for it runs the key, with a higher
// token. A runner that lives finishes although the raft leader dies meanwhile, and nobody runs the
// key again.
func TestAKeyIsRunAgainOnlyIfItsRunnerDiesWithTheRaftLeader(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		const ttl = 3 * time.Second
		began := make(chan holdfast.Token, 2)
		slow := func(d time.Duration) func(context.Context, *holdfast.Lease) error {
			return func(ctx context.Context, l *holdfast.Lease) error {
				began <- l.Token()
				time.Sleep(d)
				return ctx.Err()
			}
		}
		ended := make(chan error, 2)
		dying := leader.Cluster()
		go func() {
			_, err := dying.Once(until(time.Minute), "dies", slow(time.Second), holdfast.WithTTL(ttl))
			ended <- err
		}()
		dead := <-began
		go func() {
			r, err := a.Once(until(time.Minute), "lives", slow(2*ttl), holdfast.WithTTL(ttl))
			if !r.Ran || !r.Finished {
				t.Errorf("the runner that lives: %+v", r)
			}
			ended <- err
		}()
		lives := <-began
		leader.Crash()
		r, err := b.Once(until(time.Minute), "dies", nothing, holdfast.WithWait(), holdfast.WithTTL(ttl))
		if err != nil || !r.Ran || !r.Finished || r.Token <= dead {
			t.Errorf("%+v, %v; the dead runner had token %d", r, err, dead)
		}
		r, err = b.Once(until(time.Minute), "lives", nothing, holdfast.WithWait())
		if err != nil || r.Ran || !r.Finished || r.Token != lives || r.By.NodeID != a.ID() {
			t.Errorf("%+v, %v", r, err)
		}
		if first, second := <-ended, <-ended; (first == nil) == (second == nil) {
			t.Errorf("the runners were told %v and %v", first, second)
		}
	})
}

func TestALockerComesBackWithTheLockThoughTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		held := get(t, a, "x")
		k, err := b.Locker("x", func(err error) { t.Errorf("told %v", err) })
		if err != nil {
			t.Fatal(err)
		}
		locked := make(chan struct{})
		go func() {
			defer close(locked)
			k.Lock()
		}()
		<-held.Wanted()
		leader.Crash()
		give(t, held)
		<-locked
		if err := a.Verify(until(time.Minute), "x", k.Token()); err != nil || k.Token() <= held.Token() {
			t.Errorf("token %d after %d: %v", k.Token(), held.Token(), err)
		}
		k.Unlock()
		get(t, a, "x")
	})
}
