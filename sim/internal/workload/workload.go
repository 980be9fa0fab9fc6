// Package workload is the users of a fleet: callers that ask for locks of every kind, hold them,
// use what they hold, look at locks and are told of them, and record what they saw for
// sim/internal/history. They know a *holdfast.Cluster and nothing below it. Under virtual time
// (sim/virtual) one workload has the callers of all nodes; of real processes (sim/cmd/chaos) each
// has a workload of its own, with one node.
//
// The two differ in what they give it. A Record of virtual time is in memory and atomic over the
// whole fleet; one of a process writes every line to a file at once, since a process that is killed
// takes its memory along. A Host of virtual time outlives the processes of its node, and says when
// its callers may run, since a goroutine cannot be stopped as a process can. Terms has the rest:
// virtual time costs nothing to wait for, so more of it is waited for.
//
//	workload.go    who calls, and how that begins and ends
//	locks.go       the kinds of locks
//	call.go        who asks for locks and holds them
//	use.go         what holders do; jobs that run once; a value that each holder takes over
//	election.go    who campaigns, and who observes
//	inspect.go     looks at locks, operators who take them away, and what is demanded at the end
//	watch.go       who is told of changes, and what follows from them
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	callers   = 4 // of locks, on each node
	callLimit = time.Second
	hearPause = 100 * time.Millisecond // until who was told the last looks for a node again
)

// Record takes what callers see. It is safe for concurrent use.
type Record interface {
	Op() uint64                  // a new number for a call
	Now() time.Duration          // true time since the beginning
	Add(e history.Event)         // records e at this moment
	Wrong(node int, text string) // what must never happen

	// Observe records what look sees, and nothing else meanwhile, so that what is seen did not
	// change in between. It records nothing if look returns false.
	Observe(look func() (history.Event, bool))
}

// Host is where the callers of a node run.
type Host interface {
	Index() int
	Cluster() *holdfast.Cluster // nil: no process runs
	Awake() <-chan struct{}     // closed when the process is not stopped; a real one is stopped with its callers
}

// Terms are what all callers of a run go by.
type Terms struct {
	TTL       time.Duration // the fleet's
	Long      time.Duration // the TTL of locks that are held for long
	MinHold   time.Duration // that of the locks which have one
	LockDelay time.Duration // likewise
	Late      time.Duration // a dead holder's lock can be had after its TTL and this
	WaitMax   time.Duration // the longest TTL whose end Drain waits for: an operator frees what is held for longer
	Failing   time.Duration // for so long a call may fail in any way before its node says that it has failed: disks are full in processes alone
	Crowded   bool          // the calls of clients are under way at nodes beside their own: a node that is overloaded may refuse one
	Pace      Pace
	Locks     []Kind // beside those of every workload
}

// Pace is how often callers do something, and for how long.
type Pace struct {
	Call, Keep, Lead, Look, Burden time.Duration // the longest pause of who does such a thing again and again
	Job                            time.Duration // how much of the time has one job, the same on all nodes
	Hold, Patience                 time.Duration // of who keeps locks with TTLs of their own
	Glance, Gaze                   time.Duration // how often holders look at their leases, and at those with TTLs of their own
}

// Workload is the callers of a run.
type Workload struct {
	terms             Terms
	record            Record
	rest, hearing     context.Context // ended when callers are to finish, and when who is told of what they do is to
	finish, deafen    context.CancelFunc
	calling, listened sync.WaitGroup

	mu      sync.Mutex
	nodes   []*Node
	tenures map[*tenure]struct{}
}

// Node is the callers of one node.
type Node struct {
	*Workload
	host    Host
	account account // of its watcher
}

// New returns a workload without callers.
func New(terms Terms, record Record) *Workload {
	w := &Workload{terms: terms, record: record, tenures: make(map[*tenure]struct{})}
	w.rest, w.finish = context.WithCancel(context.Background())
	w.hearing, w.deafen = context.WithCancel(context.Background())
	return w
}

// Node adds a node. Its callers do nothing before Start.
func (w *Workload) Node(h Host) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &Node{Workload: w, host: h}
	w.nodes = append(w.nodes, n)
	return n
}

// Start lets all callers of the node loose, and who is told of what they do. Each takes its
// randomness from lot.
func (n *Node) Start(lot func() *rand.Rand) {
	pace := n.terms.Pace
	for range callers {
		n.again(lot(), pace.Call, n.callAny)
	}
	n.again(lot(), pace.Keep, n.callLong)
	n.again(lot(), pace.Job/2, n.job)
	n.again(lot(), pace.Lead, n.campaign)
	n.again(lot(), pace.Look, n.look)
	observing := lot()
	n.hears(func(ctx context.Context, c *holdfast.Cluster) { n.observe(ctx, c, observing) })
	n.hears((&watcher{n: n, prefix: n.prefix(), account: &n.account}).watch)
}

// StartSlow adds a caller that writes large values, and one who is to be told of them and looks
// away for so long that events are missed.
func (n *Node) StartSlow(lot func() *rand.Rand) {
	n.again(lot(), n.terms.Pace.Burden, n.burden)
	n.hears((&watcher{n: n, prefix: ballast, slow: slowMax, account: new(account)}).watch)
}

// Resting is closed when callers are to finish.
func (w *Workload) Resting() <-chan struct{} { return w.rest.Done() }

// Rest ends what callers do, and waits for that. A second call does the same.
func (w *Workload) Rest() {
	w.finish()
	w.calling.Wait()
}

// Close ends what is told, and waits for that. Callers that were not at rest are not waited for.
func (w *Workload) Close() {
	w.finish()
	w.deafen()
	w.listened.Wait()
}

func (w *Workload) resting() bool { return w.rest.Err() != nil }

func (n *Node) again(r *rand.Rand, most time.Duration, do func(*holdfast.Cluster, *rand.Rand)) {
	n.calling.Go(func() {
		for {
			n.pause(r, most)
			if n.resting() {
				return
			}
			if c := n.host.Cluster(); c != nil {
				do(c, r)
			}
		}
	})
}

func (n *Node) hears(do func(context.Context, *holdfast.Cluster)) {
	n.listened.Go(func() {
		for n.hearing.Err() == nil {
			if c := n.host.Cluster(); c != nil && c.Err() == nil {
				do(n.hearing, c)
			}
			_ = loop.Sleep(n.hearing, hearPause)
		}
	})
}

// pause is some time, by chance, unless callers are to finish; and then until the process runs.
func (n *Node) pause(r *rand.Rand, most time.Duration) {
	_ = loop.Sleep(n.rest, UpTo(r, most))
	n.awake()
}

func (n *Node) awake() { <-n.host.Awake() }

func (n *Node) event(k history.Kind, lock string) history.Event {
	return history.Event{Kind: k, Node: n.host.Index(), Lock: lock}
}

func (n *Node) call(k history.Kind, lock string) history.Event {
	e := n.event(k, lock)
	e.Op = n.record.Op()
	return e
}

func (n *Node) add(e history.Event) {
	n.awake()
	n.record.Add(e)
}

// Understand complains about errors that no caller expects when processes die, disks move and
// networks break.
func (n *Node) Understand(c *holdfast.Cluster, what string, err error, also ...error) {
	if n.terms.Crowded {
		also = append(also, holdfast.ErrExhausted)
	}
	for _, allowed := range append(also, holdfast.ErrNoQuorum, holdfast.ErrClosed, holdfast.ErrRemoved, holdfast.ErrIncompatible, context.Canceled, context.DeadlineExceeded) {
		if errors.Is(err, allowed) {
			return
		}
	}
	n.complain(c, fmt.Sprintf("%s answered %v", what, err))
}

// complain says what must not be, unless the node says soon that it has failed, which is told.
func (n *Node) complain(c *holdfast.Cluster, text string) {
	if n.terms.Failing > 0 {
		select {
		case <-c.Done():
			return
		case <-time.After(n.terms.Failing):
		}
	}
	n.record.Wrong(n.host.Index(), text)
}

// Chance is true so many times in a hundred.
func Chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// UpTo is a time up to most, a millisecond at least.
func UpTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Millisecond + time.Duration(r.Int64N(int64(most)))
}

// Within is a context that ends after d. Its timer goes with it.
func Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}
