package client_test

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
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// world is a replica and two clients, under virtual time.
func world(t *testing.T, f func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := clienttest.New(transport.NewMemory(1), seamtest.New(clock.System().Now, fsm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		a, b := open(t, r, "a"), open(t, r, "b")
		f(t, r, a, b)
		a.Close()
		b.Close()
		r.Close()
	})
}

func open(t *testing.T, r *clienttest.Replica, name string) *holdfast.Cluster {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	env := simenv.Env{Clock: clock.System(), Node: r.Client(name, log)}
	c, err := holdfast.Open(simenv.With(t.Context(), env), holdfast.Config{Name: name, Logger: log, MaxTTL: holdfast.TTLMax})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestALockGoesFromOneClientToTheNext(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		first, err := a.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *holdfast.Lease)
		go func() {
			l, err := b.Acquire(context.Background(), "x")
			if err != nil {
				t.Error(err)
			}
			granted <- l
		}()
		time.Sleep(time.Minute) // waiting is for ever, and no waiter is withdrawn because it has no replica
		select {
		case <-first.Wanted():
		default:
			t.Error("the holder was not told that its lock is wanted")
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		second := <-granted
		if second.Token() <= first.Token() || time.Since(began) > 50*time.Millisecond {
			t.Errorf("tokens %v, then %v after %v", first.Token(), second.Token(), time.Since(began))
		}
		b.Close()
		if l, err := a.TryAcquire(t.Context(), "x"); err != nil {
			t.Errorf("a client that was closed has not given back its lock: %v", err)
		} else if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The replica is gone for half a second: a lease of two seconds lives on, a waiter is granted what it
// missed, and a holder learns what happened to its lease meanwhile.
func TestALeaseOutlivesTheReplicaThatItsClientHangsOn(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		held, err := a.Acquire(t.Context(), "x", holdfast.WithTTL(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r.Stop()
			time.Sleep(500 * time.Millisecond)
			if err := r.Start("10.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if !held.Valid() {
			t.Fatal("the lease ended with the connections")
		}
		forced := held.Token()
		granted := make(chan *holdfast.Lease)
		go func() {
			l, err := b.Acquire(context.Background(), "x")
			if err != nil {
				t.Error(err)
			}
			granted <- l
		}()
		time.Sleep(time.Second)
		r.Stop()
		r.Group.Propose(t.Context(), 0, fsm.Encode(fsm.ForceRelease{Name: "x", Token: uint64(forced), Reason: "stuck"}))
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		if l := <-granted; l.Token() <= forced {
			t.Errorf("token %v after %v", l.Token(), forced)
		}
		<-held.Done()
		if !errors.Is(held.Err(), holdfast.ErrForced) {
			t.Errorf("the holder was told %v", held.Err())
		}
	})
}

// A backup comes in pieces, and a connection that ends between two would leave one that looks whole.
func TestABackupWhoseReplicaGoesAwayInBetweenIsAnError(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, _ *holdfast.Cluster) {
		for i := range 16 { // 1 MiB: four pieces
			if _, err := a.Acquire(t.Context(), fmt.Sprint("x", i), holdfast.WithValue(make([]byte, 64<<10))); err != nil {
				t.Fatal(err)
			}
		}
		var whole bytes.Buffer
		if err := a.Backup(t.Context(), &whole); err != nil {
			t.Fatal(err)
		}
		if info, err := holdfast.CheckBackup(&whole); err != nil || info.Names != 16 {
			t.Fatalf("%+v: %v", info, err)
		}
		stop := sync.OnceFunc(r.Stop)
		cut := writer(func(b []byte) (int, error) {
			go stop()
			synctest.Wait()
			return len(b), nil
		})
		if err := a.Backup(t.Context(), cut); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("a backup whose replica was stopped in between: %v", err)
		}
		full := errors.New("no space left on device")
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		if err := a.Backup(t.Context(), writer(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
			t.Errorf("a writer that fails: %v", err)
		}
	})
}

// The pages of a list are of one state, which the replica keeps: there is no other half of it elsewhere.
func TestAListWhoseReplicaGoesAwayInBetweenEndsWithErrNoQuorum(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, _ *holdfast.Cluster) {
		for i := range 2 * fsm.PageItems {
			if _, err := a.Acquire(t.Context(), fmt.Sprint("x", i)); err != nil {
				t.Fatal(err)
			}
		}
		seen := 0
		for _, err := range a.Locks(t.Context(), "") {
			if err != nil {
				if !errors.Is(err, holdfast.ErrNoQuorum) {
					t.Error(err)
				}
				break
			}
			if seen++; seen == 1 {
				r.Stop()
			}
		}
		if seen == 0 || seen == 2*fsm.PageItems {
			t.Errorf("%d locks were listed", seen)
		}
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
	})
}

// writer is a function that is an io.Writer.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// Cut off from all replicas a lease ends in time: not before its validity is over, and not after.
func TestALeaseOfAClientThatIsCutOffEndsInTime(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		held, err := a.Acquire(t.Context(), "x", holdfast.WithTTL(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.Stop()
		<-held.Done()
		if lived := time.Since(began); lived < time.Second || lived > 2*time.Second || !errors.Is(held.Err(), holdfast.ErrLost) {
			t.Errorf("%v after %v", held.Err(), lived)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.TryAcquire(ctx, "y"); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("without a replica: %v", err)
		}
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Acquire(t.Context(), "x"); err != nil {
			t.Error(err)
		}
	})
}

// Found by the contract tests on a client: the Goodbye of Close overtook a Release that was under
// way, whose caller was told that it had lost its lease (a stale token).
func TestAReleaseUnderWayWhenItsClientClosesIsNoLoss(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		var all sync.WaitGroup
		for i := range 64 {
			l, err := a.Acquire(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if err := l.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrClosed) {
					t.Error(err)
				}
			})
		}
		a.Close()
		all.Wait()
	})
}

func nodes(t *testing.T, r *clienttest.Replica) int {
	t.Helper()
	state, err := seam.Ask(t.Context(), r.Group, seam.Now, fsm.QueryGroup{})
	if err != nil {
		t.Fatal(err)
	}
	return state.Nodes
}

func TestAClientIsKnownToTheGroupFromItsFirstLockToItsEnd(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		if _, err := a.Inspect(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		before := nodes(t, r)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if _, err := b.Acquire(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if now := nodes(t, r); now != before+1 {
			t.Errorf("%d nodes after a question and a lock, %d before", now, before)
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if now := nodes(t, r); now != before {
			t.Errorf("%d nodes after the client has left", now)
		}
	})
}

// The bound that a group is recovered by is raised by nodes with a replica alone.
func TestAClientIsToldOfAMaxTTLAboveTheGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := clienttest.New(transport.NewMemory(1), seamtest.New(clock.System().Now, fsm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.MaxTTL = holdfast.TTLMax + 1
		c := open(t, r, "a")
		defer c.Close()
		var field *holdfast.FieldError
		if _, err := c.Acquire(t.Context(), "x"); !errors.As(err, &field) || field.Field != "Config.MaxTTL" {
			t.Error(err)
		}
		if _, err := c.Inspect(t.Context(), "x"); err != nil {
			t.Errorf("a question: %v", err)
		}
	})
}

// All turns of lists were taken, and the look at one lock in the body of each waited for a turn of a list.
func TestALockIsLookedAtWithinAsManyListsAsThereAre(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, _ *clienttest.Replica, a, _ *holdfast.Cluster) {
		if _, err := a.Acquire(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var within, all sync.WaitGroup
		const lists = 16
		within.Add(lists)
		for range lists {
			all.Go(func() {
				for _, err := range a.Locks(ctx, "") {
					within.Done()
					within.Wait()
					if err == nil {
						_, err = a.Inspect(ctx, "x")
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		within.Wait()
		began := time.Now()
		for _, err := range a.Locks(ctx, "") { // one more
			if !errors.Is(err, holdfast.ErrExhausted) && err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("a further list ended after %v", took)
		}
		all.Wait()
	})
}

func TestAClientTakesFewGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := clienttest.New(transport.NewMemory(1), seamtest.New(clock.System().Now, fsm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		const clients = 40
		before := bubbled()
		for i := range clients {
			c := open(t, r, fmt.Sprint(i))
			defer c.Close()
			if _, err := c.Acquire(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if each := (bubbled() - before) / clients; each > 20 {
			t.Errorf("a client and its replica's side of it take %d goroutines", each)
		} else {
			t.Logf("%d goroutines", each)
		}
	})
}

// bubbled counts the goroutines under virtual time: other tests have some, too.
func bubbled() int {
	all := make([]byte, 4<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "synctest bubble")
}

func TestAReplicaThatIsIllSendsItsClientsAway(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		held, err := a.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		r.Ill.Store(true)
		time.Sleep(2 * time.Second)
		if st := a.Status(); st.Ready || !strings.Contains(st.Waits, "ill") || r.Server.Clients() > 0 {
			t.Errorf("ready %v, waits: %q, %d clients", st.Ready, st.Waits, r.Server.Clients())
		}
		r.Ill.Store(false)
		time.Sleep(2 * time.Second)
		if st := a.Status(); !st.Ready || !held.Valid() {
			t.Errorf("waits: %q, valid: %v", st.Waits, held.Valid())
		}
	})
}

// The fleet was recovered, or restored from a backup: its group is another one.
func TestAClientGoesOnWithTheGroupThatHasTakenThePlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		held, err := a.Acquire(t.Context(), "x", holdfast.WithTTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if l, err := b.Acquire(context.Background(), "x"); err != nil || !l.Valid() {
				t.Errorf("a call that waits over it: %v", err)
			}
		})
		time.Sleep(time.Second)
		r.Stop()
		other, err := clienttest.New(r.Network, seamtest.NewOf([16]byte{2}, clock.System().Now, fsm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if !held.Valid() {
			t.Errorf("the lease ended at once: %v", held.Err())
		}
		<-held.Done()
		if !errors.Is(held.Err(), holdfast.ErrYielded) {
			t.Error(held.Err())
		}
		all.Wait()
		if _, err := a.Acquire(t.Context(), "y"); err != nil {
			t.Error(err)
		}
		other.Close()
	})
}

// Found by the contract tests on a client whose replicas die: the group knew how the grant had ended,
// and the caller was told that nobody does.
func TestAReleaseWhoseAnswersAreLostTwiceIsARelease(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		for _, what := range []struct {
			name string
			end  func(*holdfast.Lease) error
		}{
			{"released", func(l *holdfast.Lease) error { return l.Release(t.Context()) }},
			{"forced", func(l *holdfast.Lease) error {
				return b.ForceRelease(t.Context(), l.Name(), l.Token(), "stuck")
			}},
		} {
			l, err := a.Acquire(t.Context(), what.name, holdfast.WithTTL(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			commands, questions := 0, 0
			r.Die(func(call any) (before, after bool) {
				switch call := call.(type) {
				case fsm.Via: // the command that ends it
					_, release := call.Command.(fsm.Release)
					_, force := call.Command.(fsm.ForceRelease)
					if release || force {
						commands++
						return false, commands == 1
					}
				case fsm.QueryName: // how it has ended
					questions++
					return questions <= 2, false
				}
				return false, false
			})
			if err := what.end(l); err != nil || commands != 2 || questions != 3 {
				t.Errorf("%s by %d commands and %d questions: %v", what.name, commands, questions, err)
			}
		}
	})
}
