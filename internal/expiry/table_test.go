package expiry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	stagger = time.Second
	noon    = lease.Instant(12 * time.Hour)
)

// replica is a state and what times it.
type replica struct {
	*fsm.Machine
	*Table
	now     lease.Instant
	session fsm.SessionID
	expired []time.Duration // how late
}

func newReplica(limits fsm.Limits) *replica {
	r := &replica{Machine: fsm.NewLimited(limits), now: noon, session: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}}
	r.Table = New(stagger, func(_ fsm.SessionID, late time.Duration) { r.expired = append(r.expired, late) })
	r.apply(fsm.Birth{Cluster: [16]byte{1}})
	r.apply(fsm.Serve{})
	r.apply(fsm.Hello{Node: fsm.Node{1}, Incarnation: 1})
	return r
}

// apply lets the table hear of a command, and reports whether that is to be woken.
func (r *replica) apply(cmd fsm.Command) (out fsm.Outcome, wake bool) {
	out, events := r.Machine.Apply(r.Applied()+1, fsm.ProcessOf(cmd), fsm.Encode(cmd))
	for i := range events {
		wake = r.Note(&events[i], r.now) || wake
	}
	return out, wake
}

func (r *replica) acquire(name string, request uint64) fsm.Grant {
	out, _ := r.apply(fsm.Acquire{Session: r.session, TTL: time.Minute, Request: request, Name: name})
	return fsm.Grant{Name: name, Token: out.Token}
}

func (r *replica) read(look func(*fsm.Machine)) { look(r.Machine) }

// due is what is to be proposed after a while.
func (r *replica) due(t *testing.T, d time.Duration, leads bool) []fsm.Command {
	t.Helper()
	due, next := r.Step(r.read, noon.Add(d), leads)
	if pause := next.Sub(noon.Add(d)); pause > PauseMax {
		t.Errorf("it sleeps for %v", pause)
	}
	return due
}

func wants(t *testing.T, got []fsm.Command, want ...fsm.Command) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b fsm.Command) bool { return string(fsm.Encode(a)) == string(fsm.Encode(b)) }) {
		t.Errorf("due is %+v, not %+v", got, want)
	}
}

// Every replica times everything. If the others did not, a lock whose holder dies with the raft
// leader is stuck; if they did so at once, a renewal on its way to the raft leader would come too
// late.
func TestTheRaftLeaderProposesAnEndWhenItsTimeIsOverAndTheOthersLater(t *testing.T) {
	t.Parallel()
	r := newReplica(fsm.Limits{})
	r.acquire("x", 1)
	renewed := r.Commands()
	wants(t, r.due(t, time.Minute-1, true))
	wants(t, r.due(t, time.Minute+stagger-1, false))
	end := fsm.Expire{Session: r.session, Renewed: renewed}
	wants(t, r.due(t, time.Minute+stagger, false), end)
	wants(t, r.due(t, time.Minute+stagger+retry-1, true))
	wants(t, r.due(t, time.Minute+stagger+retry, true), end) // the proposal was lost
	r.now = noon.Add(time.Minute + 1500*time.Millisecond)
	r.apply(end)
	if !slices.Equal(r.expired, []time.Duration{1500 * time.Millisecond}) {
		t.Errorf("told of %v", r.expired)
	}
	wants(t, r.due(t, time.Hour, true))
}

// A replica that takes a state as a whole does not know how old what is in it is. It may only be
// late (X2); and it must know all of it, or a place would stay taken for ever once the others are
// gone (X1).
func TestASnapshotStartsEverySessionAndEveryRestAnew(t *testing.T) {
	t.Parallel()
	r := newReplica(fsm.Limits{})
	grant := r.acquire("rationed", 1)
	renewed := r.Commands()
	_, wake := r.apply(fsm.Release{Session: r.session, Grants: []fsm.Grant{grant}, Rest: time.Minute})
	if !wake {
		t.Error("a rest wakes nobody")
	}
	r.Restore(r.Machine, noon.Add(30*time.Second))
	wants(t, r.due(t, 90*time.Second-1, true))
	wants(t, r.due(t, 90*time.Second, true), fsm.Expire{Session: r.session, Renewed: renewed}, fsm.EndRest(grant))
	r.Restore(fsm.New(), noon)
	wants(t, r.due(t, time.Hour, true))
}

// Otherwise every rest that ever was would cost memory and be proposed again for ever (X3).
func TestARestThatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	r := newReplica(fsm.Limits{})
	r.Note(&fsm.Event{Kind: fsm.EventResting, Name: "rationed", Token: 7, TTL: time.Minute}, noon)
	if n := r.Table.Rests(); n != 1 {
		t.Fatalf("%d rests are timed, one wanted", n)
	}
	r.Note(&fsm.Event{Kind: fsm.EventRested, Name: "rationed", Token: 7}, noon)
	if n := r.Table.Rests(); n != 0 {
		t.Errorf("%d rests are timed after their end", n)
	}
}

// What ends much does so in steps. A replica that misses the next would leave the rest of it taken
// for ever; so would one that takes the state as a whole, and is told of no end in it (X1).
func TestWhatHasEndedAndIsStillThereGoesOnAlsoAfterASnapshot(t *testing.T) {
	t.Parallel()
	r := newReplica(fsm.Limits{Step: 1})
	for i := range uint64(3) {
		r.acquire(string('a'+rune(i)), i+1)
	}
	wants(t, r.due(t, 0, true))
	if _, wake := r.apply(fsm.CloseSession{Session: r.session}); !wake {
		t.Error("what is left wakes nobody")
	}
	step := func() fsm.Command {
		last, _ := r.Unfinished()
		return fsm.Continue{Last: last}
	}
	wants(t, r.due(t, 0, true), step())
	r.apply(step())
	r.Restore(r.Machine, noon)
	wants(t, r.due(t, 0, true), step())
	for range 10 {
		r.apply(step())
	}
	if _, left := r.Unfinished(); left {
		t.Fatal("ten steps are not enough")
	}
	wants(t, r.due(t, time.Hour, true))
}

// Nobody holds a key that has finished: if no replica times it, it is kept for ever.
func TestTheFirstKeyThatIsKeptWakesAndItsPeriodsAreTimed(t *testing.T) {
	t.Parallel()
	const keep = 80 * time.Second
	r := newReplica(fsm.Limits{})
	wakes := 0
	for i := range uint64(2) {
		name := fsm.OnceName(string('a' + rune(i)))
		g := r.acquire(name, i+1)
		if _, wake := r.apply(fsm.Finish{Session: r.session, Name: name, Token: g.Token, Keep: keep}); wake {
			wakes++
		}
	}
	if wakes != 1 {
		t.Errorf("two keys wake %d times", wakes)
	}
	r.apply(fsm.CloseSession{Session: r.session})
	wants(t, r.due(t, 0, true))
	for passed := time.Duration(0); r.Info().Keys > 0; passed += fsm.OncePeriod(keep) {
		if passed > 4*keep {
			t.Fatal("the keys are never forgotten")
		}
		for _, cmd := range r.due(t, passed, true) {
			r.apply(cmd)
		}
		for _, cmd := range r.due(t, passed, true) { // what a turn lets be swept away
			r.apply(cmd)
		}
	}
	wants(t, r.due(t, time.Hour, true))
}

// Ten thousand sessions of dead nodes were proposed to be expired before the end of any rest, and the
// next step of a large end came after all of them: a place stayed taken for as long as that took.
func TestTheEndOfARestDoesNotWaitForAllSessionsThatExpire(t *testing.T) {
	t.Parallel()
	const many = 10_000
	r := newReplica(fsm.Limits{})
	grant := r.acquire("rationed", 1)
	for n := range uint64(many) {
		id := r.session
		id.Number += n + 1
		r.apply(fsm.Acquire{Session: id, TTL: time.Second, Request: 1, Name: fmt.Sprint(n)})
	}
	r.apply(fsm.Release{Session: r.session, Grants: []fsm.Grant{grant}, Rest: time.Second})
	expired := 0
	for rested := false; expired < many; {
		before := expired
		for _, cmd := range r.due(t, 2*time.Second, true) {
			if _, is := cmd.(fsm.EndRest); is {
				rested = true
			} else {
				expired++
			}
		}
		if !rested || expired == before || expired > before+FlightsMax {
			t.Fatalf("after %d sessions, %d of this step: the rest is ended: %v", expired, expired-before, rested)
		}
	}
	if _, next := r.Step(r.read, noon.Add(2*time.Second), true); next <= noon.Add(2*time.Second) {
		t.Error("it does not pause when all is proposed")
	}
}
