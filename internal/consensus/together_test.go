package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/transport"
)

func (r *replica) asks(request uint64) []byte {
	return fsm.Encode(fsm.Acquire{Session: r.sessionID(), TTL: time.Hour, Request: request, Name: fmt.Sprint("lock ", request)})
}

// occupied is a group of one whose callers have to wait.
func occupied(t *testing.T) *replica {
	t.Helper()
	r := newBench().open(t, 1, vfs.NewMem(), StartBootstrap)
	r.propose(t, birth())
	r.greet(t)
	r.occupy()
	return r
}

// occupy makes it look as if as many entries were under way as there may be.
func (r *replica) occupy() {
	r.together.mu.Lock()
	defer r.together.mu.Unlock()
	for r.together.queue.Begin() {
	}
}

// vacate lets what waits go.
func (r *replica) vacate() {
	for range batch.UnderwayMax {
		r.Group.start(r.alone())
	}
}

// result is an answer of Propose.
type result struct {
	outcome fsm.Outcome
	err     error
}

// start proposes in the background.
func (r *replica) start(ctx context.Context, cmd []byte) <-chan result {
	answer := make(chan result, 1)
	go func() {
		outcome, err := r.Propose(ctx, cmd)
		answer <- result{outcome, err}
	}()
	synctest.Wait()
	return answer
}

func (r *replica) holds(request uint64) (held bool) {
	r.Read(func(m *fsm.Machine) { _, held = m.Head(fmt.Sprint("lock ", request)) })
	return held
}

func TestWhatComesWhileOthersAreUnderWayTravelsInOneEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := occupied(t)
		defer r.close(t)
		const many = 20
		var answers []<-chan result
		for i := range uint64(many) {
			answers = append(answers, r.start(t.Context(), r.asks(i+1)))
		}
		answers = append(answers, r.start(t.Context(), fsm.Encode(fsm.CloseSession{Session: fsm.SessionID{Node: fsm.Node{9}, Incarnation: 1, Number: 1}})))
		entries, commands := r.progress()
		r.propose(t, fsm.Level{Level: 1}) // waits for nobody
		r.vacate()
		tokens := make(map[uint64]bool)
		for i, answer := range answers[:many] {
			if a := <-answer; a.err != nil || a.outcome.Code != fsm.CodeGranted || tokens[a.outcome.Token] {
				t.Errorf("caller %d: %v, %v", i, a.outcome, a.err)
			} else {
				tokens[a.outcome.Token] = true
			}
		}
		if a := <-answers[many]; a.err != nil || a.outcome.Code != fsm.CodeForbidden {
			t.Errorf("another node's session: %v, %v", a.outcome, a.err)
		}
		if e, c := r.progress(); e != entries+2 || c != commands+2+many {
			t.Errorf("%d commands in %d entries", c-commands, e-entries)
		}
		if a := <-r.start(t.Context(), r.asks(many+1)); a.err != nil || a.outcome.Code != fsm.CodeGranted {
			t.Errorf("alone again: %v, %v", a.outcome, a.err)
		}
	})
}

// The room of a command that was given up is used for the next one at once.
func TestWhoGivesUpBeforeItsEntryGoesIsNotInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := occupied(t)
		defer r.close(t)
		ctx, cancel := context.WithCancel(t.Context())
		cmd := r.asks(1)
		given, kept := r.start(ctx, cmd), r.start(t.Context(), r.asks(2))
		cancel()
		if a := <-given; !errors.Is(a.err, ErrNotProposed) || !errors.Is(a.err, context.Canceled) {
			t.Errorf("given up: %v", a.err)
		}
		copy(cmd, r.asks(3))
		r.vacate()
		if a := <-kept; a.err != nil || a.outcome.Code != fsm.CodeGranted {
			t.Errorf("not given up: %v, %v", a.outcome, a.err)
		}
		if r.holds(1) || !r.holds(2) || r.holds(3) {
			t.Errorf("held are the locks %v, %v, %v", r.holds(1), r.holds(2), r.holds(3))
		}
	})
}

// An entry whose answer is lost is so for all that travelled in it. Each asks again, with others or
// alone, and the group recognises what it has carried out. A call that had given up asks no more.
func TestALostAnswerIsLostForAllAndEachAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		leader.greet(t)
		leader.occupy()
		ctx, cancel := context.WithCancel(t.Context())
		var answers []<-chan result
		for i := range uint64(5) {
			answers = append(answers, leader.start(t.Context(), leader.asks(i+1)))
		}
		given := leader.start(ctx, leader.asks(6))
		b.network.(*transport.Memory).Isolate(leader.endpoint.Addr())
		leader.vacate()
		synctest.Wait()
		cancel()
		if a := <-given; !errors.Is(a.err, ErrUnknown) || !errors.Is(a.err, context.Canceled) {
			t.Errorf("given up under way: %v", a.err)
		}
		for i, answer := range answers {
			if a := <-answer; !errors.Is(a.err, ErrUnknown) {
				t.Errorf("caller %d: %v, %v", i, a.outcome, a.err)
			}
		}
		b.network.(*transport.Memory).Heal()
		var tokens []uint64
		for i := range uint64(5) {
			cmd, _ := fsm.Decode(leader.asks(i + 1))
			out := leader.propose(t, cmd)
			if out.Code != fsm.CodeGranted || slices.Contains(tokens, out.Token) {
				t.Errorf("caller %d again: %v", i, out)
			}
			tokens = append(tokens, out.Token)
		}
	})
}

// A call that waits when the replica is closed, or fails, is told so.
func TestWhoWaitsToTravelIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *replica){
		"close":   func(t *testing.T, r *replica) { r.close(t) },
		"failure": func(_ *testing.T, r *replica) { r.Group.expel(errors.New("superseded")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := occupied(t)
				one, other := r.start(t.Context(), r.asks(1)), r.start(t.Context(), r.asks(2))
				end(t, r)
				r.vacate()
				for _, answer := range []<-chan result{one, other} {
					if a := <-answer; a.err == nil {
						t.Errorf("%v", a.outcome)
					}
				}
				if name == "failure" {
					_, _ = r.Group.Close(), r.endpoint.Close()
				}
			})
		})
	}
}

// set acquires a set of 64 names of its own.
func (r *replica) set(t *testing.T, session, i uint64) fsm.Grant {
	t.Helper()
	set := fsm.Acquire{Session: r.sessionID(), TTL: time.Hour, Request: i + 1, Name: fmt.Sprintf("{%d.%d}", session, i)}
	set.Session.Number = session
	for k := range fsm.SetMax - 1 {
		set.Others = append(set.Others, fmt.Sprintf("%s/%d", set.Name, k))
	}
	out, err := r.Group.propose(t.Context(), fsm.Encode(set))
	if err != nil || out.Code != fsm.CodeGranted {
		t.Fatal(out, err)
	}
	return fsm.Grant{Name: set.Name, Token: out.Token}
}

// The end of a session ends all that hangs on it, and an entry has room for a few of those, which
// neither their size nor their names tell. What is put off goes with the next entry, in order and
// before what came later: neither a pause nor a newcomer comes between.
func TestWhatWasPutOffGoesBeforeWhatCameLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := occupied(t)
		defer r.close(t)
		const many = 9
		var answers []<-chan result
		var last fsm.Grant
		for session := range uint64(many) {
			for i := range uint64(4) {
				last = r.set(t, session+2, i)
			}
			end := fsm.CloseSession{Session: r.sessionID()}
			end.Session.Number = session + 2
			answers = append(answers, r.start(t.Context(), fsm.Encode(end)))
		}
		gone := r.alone() // and nobody has answered yet
		newcomer := fsm.Acquire{Session: r.sessionID(), TTL: time.Hour, Request: 1, Name: last.Name}
		answers = append(answers, r.start(t.Context(), fsm.Encode(newcomer)))
		began := time.Now()
		entries, _ := r.progress()
		r.Group.start(gone)
		for i, answer := range answers {
			if a := <-answer; a.err != nil || a.outcome.Code != fsm.CodeOK && a.outcome.Code != fsm.CodeGranted {
				t.Errorf("caller %d: %v, %v", i, a.outcome, a.err)
			}
		}
		if pause := time.Since(began); pause > 0 {
			t.Errorf("all were served after %v", pause)
		}
		if e, _ := r.progress(); e < entries+2 {
			t.Error("nothing was put off")
		}
	})
}

// Sets of 64 names, and their ends, wait in a line of their own. With one line four callers of single
// locks beside 300 callers of sets got 193 locks in four seconds, and one of them waited for two.
func TestALockDoesNotWaitForTheSetsBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := occupied(t)
		defer r.close(t)
		const many = 40
		var ends []fsm.Grant
		for i := range uint64(many) {
			ends = append(ends, r.set(t, 1, i))
		}
		var answers []<-chan result
		for _, grant := range ends {
			cmd := fsm.Release{Session: r.sessionID(), Grants: []fsm.Grant{grant}}
			answers = append(answers, r.start(t.Context(), fsm.Encode(cmd)))
		}
		answers = append(answers, r.start(t.Context(), r.asks(many+1)))
		entries, commands := r.progress()
		r.vacate()
		for i, answer := range answers {
			if a := <-answer; a.err != nil || a.outcome.Code != fsm.CodeOK && a.outcome.Code != fsm.CodeGranted {
				t.Errorf("caller %d: %v, %v", i, a.outcome, a.err)
			}
		}
		var head fsm.Head
		r.Read(func(m *fsm.Machine) { head, _ = m.Head(fmt.Sprint("lock ", many+1)) })
		if before := head.Granted - commands - 1; before > 0 {
			t.Errorf("%d commands went before it", before)
		}
		if e, _ := r.progress(); e-entries < many*fsm.SetMax/batch.LargeMax {
			t.Errorf("all went in %d entries", e-entries)
		}
	})
}

// A caller that gives up after its entry has gone uses the room of its command for the next one,
// while the first may still be put off, and each answer goes to the command that it is of.
func TestNoAnswerGoesToAnotherCommandOfTheSameCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		leader.greet(t)
		leader.occupy()
		ctx, cancel := context.WithCancel(t.Context())
		cmd := leader.asks(1)
		given, other := leader.start(ctx, cmd), leader.start(t.Context(), leader.asks(2))
		b.network.(*transport.Memory).Isolate(leader.endpoint.Addr())
		leader.vacate()
		synctest.Wait() // the entry has gone, and nobody answers
		cancel()
		if a := <-given; !errors.Is(a.err, ErrUnknown) {
			t.Errorf("given up under way: %v, %v", a.outcome, a.err)
		}
		leader.occupy()
		copy(cmd, leader.asks(3))
		next := leader.start(t.Context(), cmd)
		b.network.(*transport.Memory).Heal()
		<-other
		leader.vacate()
		a := <-next
		if a.err != nil { // it may have met the election
			a.outcome, a.err = leader.propose(t, fsm.Acquire{
				Session: leader.sessionID(), TTL: time.Hour, Request: 3, Name: "lock 3"}), nil
		}
		var head fsm.Head
		leader.Read(func(m *fsm.Machine) { head, _ = m.Head("lock 3") })
		if head.Token == 0 || head.Token != a.outcome.Token {
			t.Errorf("the caller of lock 3 was told token %d, its grant has %d", a.outcome.Token, head.Token)
		}
	})
}
