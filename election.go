package holdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Leader is the leader of an election: the holder of its lock and its value. Without a NodeID it is a
// vacancy.
type Leader struct {
	Holder
	Name string // of the election
}

const (
	campaignPause    = 100 * time.Millisecond // the first pause before a candidate campaigns again; it doubles
	campaignPauseMax = 5 * time.Second
)

// Lead campaigns for the election name and runs fn whenever this node leads it. An election is a
// lock: the candidates wait in order, the leader's token fences its writes, WithValue and Lease.Set
// publish its metadata, WithPriority prefers some candidates. fn's context ends when the leadership
// is lost or ctx ends; fn resigns by returning.
//
// If fn returns while it leads, Lead returns fn's error, and one command hands the leadership over
// to the next candidate. A lease that ends before the group has that command, as in an outage, changes
// nothing in that. If the leadership is lost before fn returns (Lease.Err says so, or fn's error is
// ErrStaleToken and the release finds it lost), fn's error is ignored, and Lead campaigns again, with
// exponential backoff from 100 ms to 5 s and jitter. Lead returns when ctx ends, with the error of ctx
// or of fn (joined with ErrLost if the leadership was lost), and when the node stops. The leadership is
// released when fn has returned or panicked, never before. Lead waits for the release as Do does: without
// a majority up to a TTL after fn, also if ctx has ended. A candidate whose process has ended, or that has
// stopped waiting, is never elected. ErrExhausted is retried; ErrInvalid and ErrLimitMismatch are returned.
// With WithNoWait, Lead returns a *HeldError when another node leads, at the first attempt and after a
// loss. After a loss it goes on, with backoff, while nobody leads and the place rests (WithLockDelay,
// WithMinHold), and while the group has not heard of the loss. WithShared and WithLimit are ErrInvalid: an
// election has one leader.
func (c *Cluster) Lead(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	if fn == nil {
		return invalid("fn", "is nil")
	}
	o, err := c.candidate(ctx, callLead, name, opts)
	if err != nil {
		return err
	}
	return c.lead(ctx, name, fn, o)
}

// candidate checks the arguments of a call that stands for election.
func (c *Cluster) candidate(ctx context.Context, by call, name string, opts []Option) (options, error) {
	o, err := c.arguments(ctx, by, name, opts)
	if err != nil {
		return options{}, err
	}
	o.election = true
	return o, c.stopped()
}

// lead is Lead after the arguments were checked.
func (c *Cluster) lead(ctx context.Context, name string, fn func(context.Context, *Lease) error, o options) error {
	var last Token // of the leadership that was lost
	var lost error
	backoff := retry.Backoff{First: campaignPause, Max: campaignPauseMax}
	for losses := 0; ; losses++ {
		l, err := c.ask(ctx, name, !o.noWait, o)
		began := time.Now()
		switch {
		case err == nil:
			u := l.use(ctx, SpanTenure, fn)
			if u.loss == nil || u.late { // resigned
				return u.err
			}
			err = u.all()
			last, lost = l.Token(), err
		case o.noWait && last != 0 && c.vacant(err, last):
			err = lost // ErrHeld would say that another node leads
		case !errors.Is(err, ErrExhausted):
			return err
		}
		if ctx.Err() != nil || c.stopped() != nil {
			return err
		}
		if time.Since(began) > campaignPauseMax {
			losses = 0
		}
		if e := c.sleep(ctx, backoff.Pause(losses+1, rand.Float64())); e != nil {
			return errors.Join(err, e)
		}
	}
}

// vacant reports whether a call is refused though nobody leads: the place rests, or the group has not heard
// yet that the leadership with the last token of this node is over.
func (c *Cluster) vacant(err error, last Token) bool {
	held, ok := errors.AsType[*HeldError](err)
	return ok && (held.Token == 0 || held.Token == last && held.Holder.NodeID == c.ID())
}

func (c *Cluster) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return c.stopped()
	}
}

// Leader returns the leader of the election name, by a linearizable read; ErrNoLeader in a vacancy.
func (c *Cluster) Leader(ctx context.Context, name string) (Leader, error) {
	if err := checkCall(ctx, name); err != nil {
		return Leader{}, err
	}
	s, err := c.readElection(ctx, seam.Committed, name)
	if err != nil {
		return Leader{}, err
	}
	l := s.leader(name)
	if l.NodeID == "" {
		return Leader{}, fmt.Errorf("%w of %q", ErrNoLeader, name)
	}
	return l, nil
}

// Observe yields the leader of the election name: now (a linearizable read), and then every change of
// the leader or its value in the order of the log, vacancies too. A leader that follows another in
// one command leaves no vacancy between them. It begins with the call, and is bounded as Watch is:
// a consumer that falls behind misses changes in between, but never the latest. The end of ctx and
// of the node is an error, which ends the iteration. It can be iterated once.
func (c *Cluster) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	err := checkCall(ctx, name)
	var w *feed.Watch
	if err == nil {
		w, err = c.watch(ctx, name, true)
	}
	return func(yield func(Leader, error) bool) {
		if err != nil {
			yield(Leader{}, err)
			return
		}
		defer w.Close()
		err = invalid("Observe", "was iterated before")
		s, err := c.readElection(ctx, seam.Committed, name)
		if err != nil {
			yield(Leader{}, err)
			return
		}
		told := s.leader(name)
		if !yield(told, nil) {
			return
		}
		for {
			events, gap, err := c.next(ctx, w)
			if err != nil {
				yield(Leader{}, err)
				return
			}
			for len(events) > 0 {
				events = s.apply(events)
				if now := s.leader(name); !now.same(told) {
					if told = now; !yield(told, nil) {
						return
					}
				}
			}
			if gap == 0 {
				continue
			}
			s, err = c.readElection(ctx, seam.Now, name)
			if err != nil && ctx.Err() == nil { // the node is between two replicas: the next one answers
				s, err = c.readElection(ctx, seam.Committed, name)
			}
			if err != nil {
				yield(Leader{}, err)
				return
			}
			if now := s.leader(name); !now.same(told) {
				if told = now; !yield(told, nil) {
					return
				}
			}
		}
	}
}

// electionState is the lock of an election, as an observer knows it.
type electionState struct {
	index   uint64 // command of the state that it was read from
	holders []fsm.Holder
	value   []byte
}

// readElection asks for the state of the lock of an election.
func (c *Cluster) readElection(ctx context.Context, view seam.View, name string) (electionState, error) {
	if err := c.stopped(); err != nil {
		return electionState{}, err
	}
	page, err := seam.Ask(ctx, c.group, view, fsm.QueryLocks{Name: name, Exact: true})
	if err != nil {
		return electionState{}, c.apiError(err)
	}
	s := electionState{index: page.At}
	if len(page.Locks) > 0 {
		s.holders, s.value = page.Locks[0].Holders, page.Locks[0].Value
	}
	return s, nil
}

// apply takes the events of one command and returns the rest.
func (s *electionState) apply(events []fsm.Event) []fsm.Event {
	index := events[0].Index
	for len(events) > 0 && events[0].Index == index {
		e := events[0]
		events = events[1:]
		if index <= s.index {
			continue // it was in the state already
		}
		switch e.Kind {
		case fsm.EventGranted:
			s.holders = append(s.holders, e.Holder())
		case fsm.EventReleased, fsm.EventLost, fsm.EventForced:
			s.holders = slices.DeleteFunc(s.holders, func(h fsm.Holder) bool { return h.Token == e.Token })
		case fsm.EventValueSet:
			s.value = e.Value
		}
	}
	return events
}

func (s *electionState) leader(name string) Leader {
	if len(s.holders) == 0 {
		return Leader{Name: name}
	}
	return Leader{Holder: holder(s.holders[0], bytes.Clone(s.value)), Name: name}
}

func (l Leader) same(o Leader) bool { return l.Token == o.Token && bytes.Equal(l.Value, o.Value) }

// Campaign is a candidate in the background, for programs that ask whether they lead instead of
// giving Lead a function. It is safe for concurrent use.
type Campaign struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
	lease  atomic.Pointer[Lease]
}

// Campaign stands for the election name until Close, the end of ctx or the end of the node. It
// returns at once; IsLeader reports whether this node leads. After a loss it stands again, after a pause
// as in Lead. The options are those of Lead; WithNoWait is ErrInvalid, as a campaign waits. The
// lease inherits the values of ctx.
func (c *Cluster) Campaign(ctx context.Context, name string, opts ...Option) (*Campaign, error) {
	o, err := c.candidate(ctx, callCampaign, name, opts)
	if err != nil {
		return nil, err
	}
	standing, cancel := context.WithCancel(ctx)
	k := &Campaign{cancel: cancel, done: make(chan struct{})}
	if !c.node.Go(func(context.Context) { k.run(standing, c, name, o) }) {
		cancel()
		return nil, c.stopped()
	}
	return k, nil
}

// run campaigns again and again: lead returns nil only where the leadership was given up.
func (k *Campaign) run(ctx context.Context, c *Cluster, name string, o options) {
	defer close(k.done)
	defer k.cancel()
	tenure := func(ctx context.Context, l *Lease) error {
		k.lease.Store(l)
		defer k.lease.Store(nil)
		<-ctx.Done()
		return nil
	}
	var err error
	for err == nil && ctx.Err() == nil {
		err = c.lead(ctx, name, tenure, o)
	}
	switch stopped := c.stopped(); {
	case ctx.Err() != nil:
	case stopped != nil:
		k.err = stopped
	default:
		k.err = err
		c.log.Error("a campaign of this node has ended", "election", name, "error", err)
	}
}

// IsLeader reports whether this node leads now. It is as cheap as Lease.Valid, and means the same:
// what was begun while it was true may still arrive late, so present the token of Lease.
func (k *Campaign) IsLeader() bool { return k.Lease() != nil }

// Lease is the leadership: its token, its context, its value. It is nil while this node does not
// lead.
func (k *Campaign) Lease() *Lease {
	l := k.lease.Load()
	if l == nil || !l.Valid() {
		return nil
	}
	return l
}

// Resign gives the leadership up, as Lease.Release does, and stands again behind the candidates. It
// returns nil where this node does not lead.
func (k *Campaign) Resign(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if l := k.Lease(); l != nil {
		return l.Release(ctx)
	}
	return nil
}

// Done is closed when the campaign is over: after Close, the end of its context, the end of the
// node, or a refusal that a repeat would not change.
func (k *Campaign) Done() <-chan struct{} { return k.done }

// Err is nil until Done is closed, and after Close or the end of the context; else it is the reason:
// ErrClosed or the failure of the node, ErrLimitMismatch where the name is in use
// as a semaphore.
func (k *Campaign) Err() error {
	select {
	case <-k.done:
		return k.err
	default:
		return nil
	}
}

// Close ends the campaign, and gives the leadership up if this node has it. A second call is
// harmless. If ctx ends first, Close returns its error, and the campaign ends in the background.
func (k *Campaign) Close(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	k.cancel()
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
