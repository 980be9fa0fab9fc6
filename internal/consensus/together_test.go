package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
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
	for r.together.line.Begin() {
	}
}

// vacate lets what waits go.
func (r *replica) vacate() {
	for range batch.UnderwayMax {
		r.launch(r.land(1))
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
// alone, and the group recognises what it has carried out. Who had given up asks no more.
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

// Whoever waits when the replica is closed, or fails, is told so.
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

// entryOf is an entry that authored proposed.
func entryOf(cmd []byte) raftpb.Entry {
	return raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: authored(cmd...)}
}

func TestABatchThatWouldStopReplicasOrHidesAHelloIsRefused(t *testing.T) {
	t.Parallel()
	id := fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
	good := fsm.AppendToBatch(fsm.AppendBatch(nil), fsm.Encode(fsm.CloseSession{Session: id}))
	for name, c := range map[string]struct {
		cmd     []byte
		refused bool
	}{
		"good":            {good, false},
		"newer operation": {fsm.AppendToBatch(slices.Clone(good), []byte{1, 250}), true},
		"newer version":   {fsm.AppendToBatch(slices.Clone(good), []byte{2, 6}), true},
	} {
		v, m := testValidator(), goodBatch(proposal(entryOf(c.cmd)))
		if _, err := v.batch(&m); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	hello := fsm.Hello{Node: id.Node, Incarnation: id.Incarnation}
	e := entryOf(fsm.AppendToBatch(slices.Clone(good), fsm.Encode(hello)))
	m := fsm.New()
	by, cmd := cutEncoded(&e)
	if out, _ := m.Apply(1, by, cmd); out.Code != fsm.CodeInvalid {
		t.Errorf("the machine carries out a batch with a Hello, for which the log is not searched: %v", out)
	}
}

// What the machine put off was not carried out: its caller proposes it again, and the others have
// their outcomes.
func TestACommandThatIsToComeLaterWasNotProposed(t *testing.T) {
	t.Parallel()
	outcome := fsm.Outcome{Each: []fsm.Outcome{{Code: fsm.CodeGranted, Token: 7}, {Code: fsm.CodeLater}}}
	if a := part(outcome, nil, 0, 2); a.err != nil || a.outcome.Token != 7 {
		t.Errorf("the first is answered %+v", a)
	}
	if a := part(outcome, nil, 1, 2); !errors.Is(a.err, ErrNotProposed) {
		t.Errorf("the second is answered %+v", a)
	}
}
