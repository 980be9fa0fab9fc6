package contract_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestLeadRunsWhileItLeadsAndResignsByReturning(t *testing.T) {
	t.Parallel()
	c := single(t)
	mine := errors.New("mine")
	err := c.Lead(within(t, 10*time.Second), "scheduler", func(ctx context.Context, l *holdfast.Lease) error {
		leader, err := c.Leader(ctx, "scheduler")
		if err != nil || leader.NodeID != c.ID() || leader.Token != l.Token() || string(leader.Value) != "10.0.0.1:80" || leader.Name != "scheduler" {
			t.Errorf("while leading: %+v, %v", leader, err)
		}
		if _, err := c.TryAcquire(ctx, "scheduler"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("the lock of an election that is led: %v", err)
		}
		return mine
	}, holdfast.WithValue([]byte("10.0.0.1:80")))
	if !errors.Is(err, mine) {
		t.Errorf("Lead answered %v", err)
	}
	if _, err := c.Leader(within(t, 5*time.Second), "scheduler"); !errors.Is(err, holdfast.ErrNoLeader) {
		t.Errorf("after the resignation: %v", err)
	}
}

func TestLeadEndsWithItsContextAndWithTheNode(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	led := make(chan error, 2)
	go func() {
		led <- c.Lead(ctx, "ends", func(ctx context.Context, _ *holdfast.Lease) error {
			close(began)
			<-ctx.Done()
			return nil
		})
	}()
	<-began
	candidate, stop := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- c.Lead(candidate, "ends", nothing) }()
	eventually(t, c, "a candidate", func() bool {
		info, err := c.Inspect(within(t, 5*time.Second), "ends")
		return err == nil && len(info.Waiters) == 1
	})
	stop()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("a candidate whose context ended: %v", err)
	}
	cancel()
	if err := <-led; err != nil {
		t.Errorf("a leader whose context ended and whose fn returned nil: %v", err)
	}
	acquire(t, c, "taken")
	go func() { led <- c.Lead(t.Context(), "taken", nothing) }()
	eventually(t, c, "a candidate", func() bool {
		info, err := c.Inspect(within(t, 5*time.Second), "taken")
		return err == nil && len(info.Waiters) == 1
	})
	c.Close()
	if err := <-led; !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("a candidate on a node that was closed: %v", err)
	}
	if err := c.Lead(t.Context(), "ends", nothing); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func nothing(context.Context, *holdfast.Lease) error { return nil }

func TestLeadReleasesWhenItsFunctionPanicsAndCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	c := single(t)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not reach the caller")
			}
		}()
		_ = c.Lead(within(t, 5*time.Second), "panic", func(context.Context, *holdfast.Lease) error { panic("boom") })
	}()
	tenures := 0
	var last holdfast.Token
	err := c.Lead(within(t, 20*time.Second), "panic", func(ctx context.Context, l *holdfast.Lease) error {
		tenures++
		if l.Token() <= last {
			t.Errorf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		if tenures == 3 {
			return nil
		}
		if err := c.ForceRelease(within(t, 10*time.Second), "panic", l.Token(), "a test"); err != nil { // ctx may end before the answer
			t.Error(err)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), holdfast.ErrForced) {
			t.Errorf("the leader was told %v", context.Cause(ctx))
		}
		return errors.New("of no interest after a loss")
	})
	if err != nil || tenures != 3 {
		t.Errorf("%d tenures, %v", tenures, err)
	}
}

func TestAnElectionHasOneLeader(t *testing.T) {
	t.Parallel()
	c := single(t)
	for _, several := range []holdfast.Option{holdfast.WithShared(), holdfast.WithLimit(2)} {
		if err := c.Lead(t.Context(), "one", nothing, several); !errors.Is(err, holdfast.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestObserveTellsEveryLeaderEveryValueAndEveryVacancyInOrder(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 20*time.Second)
	next, stop := iter.Pull2(c.Observe(ctx, "seat"))
	defer stop()
	tell := func() holdfast.Leader {
		l, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("%v, %v", err, ok)
		}
		return l
	}
	if l := tell(); l.NodeID != "" || l.Name != "seat" {
		t.Errorf("of an empty seat: %+v", l)
	}
	a := acquire(t, c, "seat", holdfast.WithValue([]byte("a")))
	acquire(t, c, "seat/other")
	if err := a.Set(ctx, []byte("b")); err != nil {
		t.Fatal(err)
	}
	granted := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := c.Acquire(ctx, "seat")
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	<-a.Wanted()
	release(t, a)
	b := <-granted
	release(t, b)
	for i, want := range []string{fmt.Sprint(a.Token(), " a"), fmt.Sprint(a.Token(), " b"), fmt.Sprint(b.Token(), " b"), "0 "} {
		l := tell()
		if got := fmt.Sprint(uint64(l.Token), " ", string(l.Value)); got != want || (l.NodeID == "") != (l.Token == 0) {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

func TestAnObserverOfAClosedNodeOrWithAnEndedContextIsTold(t *testing.T) {
	t.Parallel()
	c := single(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.Observe(ended, "seat") {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for l, err := range c.Observe(t.Context(), "seat") {
		if err == nil {
			if l.NodeID != "" {
				t.Error(l)
			}
			c.Close()
		} else if !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
	}
}

// Three candidates on three nodes; the raft leader, or the leader of the election, or both at once,
// die. At no time do two lead by their own clocks, the tokens rise, and there is a leader again in
// time.
func TestAnElectionOutlivesTheDeathOfItsLeaderAndOfTheRaftLeader(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 4 * time.Second
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		leads := make(map[int]*holdfast.Lease)
		changed := make(chan struct{}, 100)
		var last holdfast.Token
		var all sync.WaitGroup
		lead := func(i int) {
			c := s.Node(i).Cluster()
			all.Go(func() {
				err := c.Lead(ctx, "job", func(ctx context.Context, l *holdfast.Lease) error {
					mu.Lock()
					for j, other := range leads {
						if other.Valid() {
							t.Errorf("%d leads though %d is valid", i, j)
						}
					}
					if l.Token() <= last {
						t.Errorf("token %d after %d", l.Token(), last)
					}
					last, leads[i] = l.Token(), l
					mu.Unlock()
					changed <- struct{}{}
					<-ctx.Done()
					mu.Lock()
					delete(leads, i)
					mu.Unlock()
					return nil
				}, holdfast.WithTTL(ttl))
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrClosed) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		for i := range 3 {
			lead(i)
		}
		<-changed
		for round := range 4 {
			mu.Lock()
			var victim int
			for i := range leads {
				victim = i
			}
			mu.Unlock()
			if round%2 == 1 {
				victim = s.RaftLeader().Index()
			}
			mu.Lock()
			_, leading := leads[victim]
			mu.Unlock()
			began := time.Now()
			s.Node(victim).Crash()
			if leading {
				<-changed
				if took := time.Since(began); took > ttl+lateMax+campaign {
					t.Errorf("round %d: a new leader after %v", round, took)
				}
			}
			s.Node(victim).Open()
			s.Node(victim).Ready()
			lead(victim)
		}
		cancel()
		all.Wait()
	})
}

// campaign is the longest pause before a candidate that has lost campaigns again.
const campaign = 5 * time.Second

// On real sockets: the time from the return of one leader's function to the call of the next one's. On
// a machine that is busy with other tests it is bounded by what reads took meanwhile.
func TestAPlannedHandOverTakesLessThanFiftyMilliseconds(t *testing.T) {
	t.Parallel()
	list := fleet(t, 3)
	ctx := within(t, 60*time.Second)
	const rounds = 15
	var resigned atomic.Int64
	var gaps, reads []time.Duration
	var mu sync.Mutex
	var all sync.WaitGroup
	var tenures int
	for _, c := range list {
		all.Go(func() {
			for {
				over := false
				err := c.Lead(ctx, "job", func(ctx context.Context, l *holdfast.Lease) error {
					now := time.Now().UnixNano()
					mu.Lock()
					defer mu.Unlock()
					tenures++
					over = tenures > rounds
					if at := resigned.Load(); at != 0 {
						gaps = append(gaps, time.Duration(now-at))
					}
					if !over {
						for waiters := 0; waiters == 0; { // until there is a candidate
							asked := time.Now()
							info, err := c.Inspect(ctx, "job")
							reads = append(reads, time.Since(asked))
							if err != nil {
								return err
							}
							waiters = len(info.Waiters)
						}
					}
					resigned.Store(time.Now().UnixNano())
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if over || err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(gaps)
	slices.Sort(reads)
	if len(gaps) < rounds {
		t.Fatalf("%d hand-overs", len(gaps))
	}
	median, read := gaps[len(gaps)/2], reads[len(reads)/2]
	t.Logf("hand-over: median %v, least %v, most %v; a read: median %v", median, gaps[0], gaps[len(gaps)-1], read)
	if median > max(50*time.Millisecond, 10*read) && !testing.Short() {
		t.Errorf("the median of %d hand-overs took %v", len(gaps), median)
	}
}
