package holdfast

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/node"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// lonely is a node whose group has lower bounds.
func lonely(t *testing.T, l fsm.Limits, cfg Config) *Cluster {
	t.Helper()
	c, err := Open(simenv.With(t.Context(), simenv.Env{Limits: l}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(patient(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// sessionsOf are the numbers of the node's sessions that the group has, and whether the node knows
// them to be open.
func sessionsOf(c *Cluster) map[uint64]bool {
	known := make(map[uint64]bool)
	group, _ := c.node.(*node.Node).Proposer.Current()
	group.Read(func(m *fsm.Machine) {
		for s := range m.Sessions() {
			known[s.ID.Number] = false
		}
	})
	for number := range known {
		if s := c.keeper.table.Get(number); s != nil {
			known[number] = s.Until() != 0
		}
	}
	return known
}

// becomes waits until what the node does in the background has made ok true.
func becomes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("not within 20 s: %s", what)
			return
		}
	}
}

// refusal is how a call comes to be refused.
type refusal struct {
	limits  fsm.Limits
	floor   Token
	prepare func(t *testing.T, c *Cluster) context.Context
	call    func(ctx context.Context, c *Cluster, opts ...Option) error
	want    error
}

// refusals are those that the API can bring about.
func refusals() map[string]refusal {
	hold := func(opts ...Option) func(t *testing.T, c *Cluster) context.Context {
		return func(t *testing.T, c *Cluster) context.Context {
			if _, err := c.Acquire(patient(t), "x", opts...); err != nil {
				t.Fatal(err)
			}
			return patient(t)
		}
	}
	acquire := func(name string, add ...Option) func(ctx context.Context, c *Cluster, opts ...Option) error {
		return func(ctx context.Context, c *Cluster, opts ...Option) error {
			_, err := c.Acquire(ctx, name, append(add, opts...)...)
			return err
		}
	}
	try := func(ctx context.Context, c *Cluster, opts ...Option) error {
		_, err := c.TryAcquire(ctx, "x", opts...)
		return err
	}
	return map[string]refusal{
		"held":           {prepare: hold(), call: try, want: ErrHeld},
		"limit mismatch": {prepare: hold(WithLimit(3)), call: acquire("x", WithLimit(2)), want: ErrLimitMismatch},
		"deadlock": {call: acquire("x", WithDeadlockCheck()), want: ErrDeadlock, prepare: func(t *testing.T, c *Cluster) context.Context {
			l, err := c.Acquire(patient(t), "x")
			if err != nil {
				t.Fatal(err)
			}
			return l.Context() // whoever waits for x under it waits for itself
		}},
		"too many locks": {limits: fsm.Limits{Locks: 1}, prepare: hold(), call: acquire("y"), want: ErrExhausted},
		"too many in sets": {limits: fsm.Limits{Locks: 2}, prepare: hold(), want: ErrExhausted, call: func(ctx context.Context, c *Cluster, opts ...Option) error {
			_, err := c.AcquireAll(ctx, []string{"{t}1", "{t}2"}, opts...)
			return err
		}},
		"values full":       {limits: fsm.Limits{ValueBytes: 1}, prepare: hold(), call: acquire("y", WithValue([]byte("ab"))), want: ErrExhausted},
		"tokens exhausted":  {floor: fence.TokenMax - 1, prepare: hold(), call: acquire("y"), want: ErrExhausted},
		"too many sessions": {limits: fsm.Limits{Sessions: 1}, prepare: hold(), call: acquire("y"), want: ErrExhausted},
	}
}

// Of all refusals only "held" counted as an answer of a session that is open. After every other
// one, a limit that differs or a deadlock for example, the node dropped a session that the group
// had opened, and its next call opened another one: a thousand refused tries a second were a
// thousand sessions, for a TTL each.
func TestARefusedCallLeavesNoSessionOfWhichItsNodeDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{MaxTTL: TTLMax}
			if r.floor > 0 {
				cfg.TokenFloor = func(context.Context) (Token, error) { return r.floor, nil }
			}
			c := lonely(t, r.limits, cfg)
			ctx := r.prepare(t, c)
			for _, opts := range [][]Option{{WithTTL(time.Hour)}, {WithTTL(time.Hour), WithManualRenew()}} {
				for range 20 {
					if err := r.call(ctx, c, opts...); !errors.Is(err, r.want) {
						t.Fatalf("%v, not %v", err, r.want)
					}
				}
			}
			becomes(t, "no more than the holder's session and the one of that TTL", func() bool {
				known := sessionsOf(c)
				for _, ok := range known {
					if !ok {
						return false
					}
				}
				return len(known) <= 2
			})
		})
	}
}

// A code that is added later must not fall through what the others go through.
func TestWhateverAnAcquireIsAnsweredItLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{MaxTTL: TTLMax})
	if _, err := c.Acquire(patient(t), "held"); err != nil {
		t.Fatal(err)
	}
	for code := fsm.CodeOK; !strings.HasPrefix(code.String(), "code("); code++ {
		if code == fsm.CodeGranted || code == fsm.CodeQueued {
			continue
		}
		for _, manual := range []bool{false, true} {
			ttl := time.Hour + time.Duration(code)*time.Second
			wake := make(waiter, 1)
			call, err := c.keeper.table.Ask(ttl, manual, wake, c.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			s := call.Session
			open, state := code.Left()
			if open { // by a try that is refused, whatever the call then hears
				try := fsm.Acquire{Session: s.ID(), TTL: ttl, Request: call.Request, Name: "held"}
				if out, _, err := c.propose(patient(t), try); err != nil || out.Code != fsm.CodeHeld {
					t.Fatal(out, err)
				}
			}
			out := fsm.Outcome{Code: code, Holder: &fsm.Holder{}}
			if l, err := c.proceed(patient(t), call, wake, "held", options{manual: manual, ttl: ttl}, out, false); l != nil || err == nil {
				t.Errorf("%v: %v, %v", code, l, err)
			}
			number := s.ID().Number
			switch {
			case open && !manual:
				if known := sessionsOf(c); !known[number] {
					t.Errorf("%v: the group has a session of which its node does not know", code)
				}
				if held, waiting := s.Counts(); s.Unfinished()+held+waiting > 0 {
					t.Errorf("%v: the request is open, state %v", code, state)
				}
			default:
				becomes(t, code.String()+" leaves no session", func() bool {
					_, there := sessionsOf(c)[number]
					return !there && c.keeper.table.Get(number) == nil
				})
			}
		}
	}
}

// What an automatically renewed session was opened for was refused: it is closed when nothing has
// hung on it for a TTL.
func TestASessionThatARefusedCallOpenedIsClosedAsUnused(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{MaxTTL: TTLMax})
	held, err := c.Acquire(patient(t), "x", WithLimit(3), WithManualRenew(), WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(patient(t), "x", WithLimit(2), WithTTL(100*time.Millisecond)); !errors.Is(err, ErrLimitMismatch) {
		t.Fatal(err)
	}
	becomes(t, "only the holder's session is left", func() bool {
		known := sessionsOf(c)
		return len(known) == 1 && known[held.grant.Session().ID().Number] && len(c.keeper.table.All()) == 1
	})
}
