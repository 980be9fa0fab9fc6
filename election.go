package holdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/feed"
)

// Leader is who leads an election: the holder of its lock and its value. Without a NodeID it is a
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
// to the next candidate. If the leadership is lost, fn's error is ignored, and Lead campaigns
// again, with exponential backoff from 100 ms to 5 s and jitter. Lead returns when ctx ends, with
// the error of ctx or of fn (joined with ErrLost if the leadership was lost), and when the node
// stops. The leadership is released when fn has returned or panicked, never before. A candidate
// that is gone, or that has stopped waiting, is never elected. ErrExhausted is retried; ErrInvalid
// and ErrLimitMismatch are returned. With WithNoWait, Lead returns a *HeldError when another node
// leads, at the first attempt and after a loss. WithShared and WithLimit are ErrInvalid: an
// election has one leader.
func (c *Cluster) Lead(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	if fn == nil {
		return invalid("fn", "is nil")
	}
	o, err := c.candidate(ctx, "Lead", name, opts)
	if err != nil {
		return err
	}
	return c.lead(ctx, name, fn, o)
}

// candidate checks the arguments of a call that stands for election.
func (c *Cluster) candidate(ctx context.Context, call, name string, opts []Option) (options, error) {
	o, err := c.arguments(ctx, name, opts)
	if err != nil {
		return options{}, err
	}
	if o.mode() != fsm.Exclusive {
		return options{}, invalid(call, "has one leader: WithShared and WithLimit make several")
	}
	o.election = true
	return o, c.stopped()
}

// lead is Lead after the arguments were checked.
func (c *Cluster) lead(ctx context.Context, name string, fn func(context.Context, *Lease) error, o options) error {
	if o.spectator {
		return c.stand(ctx)
	}
	for losses := 0; ; losses++ {
		l, err := c.ask(ctx, name, !o.noWait, o)
		began := time.Now()
		if err == nil {
			var again bool
			if again, err = l.use(ctx, SpanTenure, fn); !again {
				return err
			}
		} else if !errors.Is(err, ErrExhausted) {
			return err
		}
		if ctx.Err() != nil || c.stopped() != nil {
			return err
		}
		if time.Since(began) > campaignPauseMax {
			losses = 0
		}
		d := min(campaignPause<<min(losses, 10), campaignPauseMax)
		if e := c.sleep(ctx, d/2+rand.N(d/2)); e != nil {
			return errors.Join(err, e)
		}
	}
}

// stand waits for the end of ctx or of the node.
func (c *Cluster) stand(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return c.stopped()
	}
}

func (c *Cluster) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return c.stopped()
	}
}

// Leader tells who leads the election name, a linearizable read; ErrNoLeader if nobody does.
func (c *Cluster) Leader(ctx context.Context, name string) (Leader, error) {
	if err := checkCall(ctx, name); err != nil {
		return Leader{}, err
	}
	var s electionState
	if err := c.read(ctx, func(m *fsm.Machine) { s.read(m, name) }); err != nil {
		return Leader{}, err
	}
	l := s.leader(name)
	if l.NodeID == "" {
		return Leader{}, fmt.Errorf("%w of %q", ErrNoLeader, name)
	}
	return l, nil
}

// Observe tells who leads the election name: now (a linearizable read), and then every change of
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
		var s electionState
		if err := c.read(ctx, func(m *fsm.Machine) { s.read(m, name) }); err != nil {
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
			group, _ := c.proposer.Current()
			if group == nil { // the node goes over to another, and is told again then
				continue
			}
			group.Read(func(m *fsm.Machine) { s.read(m, name) })
			if now := s.leader(name); !now.same(told) {
				if told = now; !yield(told, nil) {
					return
				}
			}
		}
	}
}

// electionState is what an observer knows of the lock of an election.
type electionState struct {
	index   uint64 // command of the state that it was read from
	holders []fsm.Holder
	value   []byte
}

func (s *electionState) read(m *fsm.Machine, name string) {
	l, _ := m.Lock(name)
	*s = electionState{m.Commands(), l.Holders, l.Value}
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
