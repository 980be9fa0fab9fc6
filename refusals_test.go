package holdfast

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
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

// ended reports whether the group has ended a session of this process.
func ended(t *testing.T, c *Cluster, number uint64) bool {
	t.Helper()
	q := fsm.QueryClaims{Process: c.self.Process(), Sessions: []fsm.SessionClaims{{Number: number}}}
	now, err := seam.Ask(patient(t), c.group, seam.Committed, q)
	if err != nil {
		t.Fatal(err)
	}
	return now.Sessions[0].Ended
}

// known reports whether both the group and the node have a session, which is open.
func known(t *testing.T, c *Cluster, number uint64) bool {
	t.Helper()
	s := c.keeper.table.Get(number)
	return s != nil && s.Until() != 0 && !ended(t, c, number)
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
				if !known(t, c, number) {
					t.Errorf("%v: the group has a session of which its node does not know", code)
				}
				if held, waiting := s.Counts(); s.Unfinished()+held+waiting > 0 {
					t.Errorf("%v: the request is open, state %v", code, state)
				}
			default:
				becomes(t, code.String()+" leaves no session", func() bool {
					return (!open || ended(t, c, number)) && c.keeper.table.Get(number) == nil
				})
			}
		}
	}
}
