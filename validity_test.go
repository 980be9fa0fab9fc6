package holdfast

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Mutants showed that no test looked at these: a fleet in good health answers so fast that counting from the
// answer does no harm, and a lease seldom ends in the moment in which it is renewed.

// timed is a keeper on a clock of its own, and a session of it whose first command was sent an hour ago.
func timed(t *testing.T) (*keeper, *session, *clock.Manual, lease.Instant) {
	t.Helper()
	now := clock.NewManual()
	k := newKeeper(&Cluster{clock: now})
	s := k.session(24*time.Hour, false)
	sent := now.Now()
	if _, _, err := s.begin(make(chan wakeup, 1), sent); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Hour)
	return k, s, now, sent
}

func TestValidityCountsFromBeforeTheFirstCommandWasSent(t *testing.T) {
	t.Parallel()
	k, s, _, sent := timed(t)
	if !k.opened(s, false) || s.until() != lease.Horizon(sent, s.ttl, 0) {
		t.Errorf("valid until %v after the first command was sent", s.until().Sub(sent))
	}
}

// Many calls that open one session have their grants from one entry of the log. One that came between the first of
// them and the horizon that it set found a session without validity, and ended it for all.
func TestCallsThatOpenASessionAtOnceAllFindItValid(t *testing.T) {
	t.Parallel()
	for range 2000 {
		k, s, _, _ := timed(t)
		k.c.ctx, k.c.cancel = context.WithCancel(t.Context())
		k.c.cancel() // nobody cleans up here
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if !k.opened(s, false) || !k.check(s) {
					t.Error("not valid")
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

func TestValidityCountsFromBeforeTheRenewalWasSent(t *testing.T) {
	t.Parallel()
	k, s, now, _ := timed(t)
	k.opened(s, false)
	sent := now.Now()
	now.Advance(time.Hour)
	k.renewed([]*session{s}, sent, fsm.Outcome{})
	if s.until() != lease.Horizon(sent, s.ttl, 0) {
		t.Errorf("valid until %v after the renewal was sent", s.until().Sub(sent))
	}
}

// Whoever was told that its lease is not valid is never told that it is, whatever answer comes later.
func TestValidityThatWasDeniedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*session){
		"lapsed":             func(s *session) { s.lapse(s.until()) },
		"ended by the group": func(s *session) { s.judge(ErrExpired) },
		"over":               func(s *session) { s.end(errors.New("over")) },
	} {
		k, s, now, _ := timed(t)
		k.opened(s, false)
		end(s)
		if s.until() != never {
			t.Errorf("%s: valid until %v", name, s.until())
		}
		if s.extend(now.Now().Add(time.Hour)) || s.until() != never {
			t.Errorf("%s: a renewal made it valid until %v", name, s.until())
		}
	}
}

// The local apply tells of the end of a session that there was. Of one that the group has never known, because the command
// that was to open it got lost, the outcome of a keepalive alone does.
func TestASessionThatTheGroupDoesNotKnowIsOver(t *testing.T) {
	t.Parallel()
	k, s, now, _ := timed(t)
	k.c.ctx, k.c.cancel = context.WithCancel(t.Context())
	k.c.cancel() // nobody cleans up here
	k.opened(s, false)
	k.renewed([]*session{s}, now.Now(), fsm.Outcome{Lost: []uint64{s.id.Number}})
	if _, _, err := s.begin(nil, now.Now()); !errors.Is(err, ErrExpired) {
		t.Errorf("a further call was told %v", err)
	}
}
