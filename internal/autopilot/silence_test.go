package autopilot

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// A replica that the raft leader has just taken in counts as heard a moment ago, however long it
// has been raft leader: in a fleet of three zones it took newcomers for dead, waited for none of
// them, and made two of one zone voters.
func TestANewReplicaCountsFromWhenItWasTakenIn(t *testing.T) {
	t.Parallel()
	h := newSilences()
	members := Members{Voters: map[uint64]string{1: "a"}, Standbys: map[uint64]string{}}
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	h.lead(members, at(0))
	h.take(nil, members, at(0))
	members.Standbys[2] = "b"
	h.take(nil, members, at(time.Hour))
	if silent := h.since(2, at(time.Hour+time.Second)); silent != time.Second {
		t.Errorf("one that was taken in a second ago is silent for %v", silent)
	}
	if silent := h.since(1, at(time.Hour)); silent != time.Hour {
		t.Errorf("one that was never heard is silent for %v", silent)
	}
}

// silenceOf is three voters, and what the log says of the second: that it is silent for a time, or heard (0). at
// is an instant.
func silenceOf(t *testing.T) (members Members, silent func(time.Duration) *fsm.Event, at func(time.Duration) lease.Instant) {
	t.Helper()
	const voter = "02000000-0000-0000-0000-000000000000"
	node, err := fsm.ParseNode(voter)
	if err != nil {
		t.Fatal(err)
	}
	silent = func(d time.Duration) *fsm.Event {
		return &fsm.Event{Kind: fsm.EventSilent, Session: fsm.SessionID{Node: node}, TTL: d}
	}
	at = func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	return Members{Voters: map[uint64]string{1: "a", 2: voter, 3: "c"}}, silent, at
}

// Found by the seeded model, seed 2344: a voter that had been published as silent was heard again,
// 1.5 s later its raft leader lost the others, and was elected anew 1 s after that. It went by what
// it had said before it heard the voter, said so again, and removed it 8.7 s after its last answer;
// ReplaceAfter was 20 s.
func TestWhoIsHeardAgainIsNotTakenForSilentByTheNextRaftLeader(t *testing.T) {
	t.Parallel()
	members, silent, at := silenceOf(t)
	h := newSilences()
	h.note(silent(10*time.Second), at(0))
	h.lead(members, at(0))
	h.take(nil, members, at(0))
	if d := h.since(2, at(0)); d != 10*time.Second {
		t.Fatalf("published as silent for 10 s, taken over as %v", d)
	}
	if said := h.report(members, "a", 7, at(0)); said == nil || len(said.Nodes) != 1 || said.Nodes[0].For != 10*time.Second {
		t.Errorf("a silent voter is reported as %v", said)
	}
	h.take(map[uint64]Heard{2: {At: at(time.Second)}}, members, at(time.Second))
	if said := h.report(members, "a", 7, at(time.Second)); said == nil || len(said.Nodes) != 1 || said.Nodes[0].For != 0 {
		t.Errorf("that it is heard again is reported a second later as %v, and not at once", said)
	}

	h.follow() // before that could be said
	h.lead(members, at(2*time.Second))
	h.take(nil, members, at(2*time.Second))
	if d := h.since(2, at(2*time.Second)); d != time.Second {
		t.Errorf("whom it heard a second ago, in another term, it takes for silent for %v", d)
	}

	late := newSilences()
	late.note(silent(10*time.Second), at(0))
	late.lead(members, at(staleAfter+time.Second))
	late.take(nil, members, at(staleAfter+time.Second))
	if d := late.since(2, at(staleAfter+time.Second)); d != 0 {
		t.Errorf("what was said too long ago counts as a silence of %v", d)
	}

	other := newSilences()
	other.note(silent(10*time.Second), at(0))
	other.lead(members, at(2*time.Second))
	other.take(nil, members, at(2*time.Second))
	other.note(silent(0), at(2*time.Second)) // of the former raft leader: applied later than this one was elected
	other.take(nil, members, at(3*time.Second))
	if d := other.since(2, at(3*time.Second)); d != time.Second {
		t.Errorf("whom the former raft leader has heard it takes for silent for %v", d)
	}
}

// A raft leader does not hear itself, and a clock that was read earlier than an answer came makes no
// silence shorter than none.
func TestASilenceIsNeitherTheTellersOwnNorFromTheFuture(t *testing.T) {
	t.Parallel()
	const self, other = "01000000-0000-0000-0000-000000000000", "02000000-0000-0000-0000-000000000000"
	members := Members{Voters: map[uint64]string{1: self, 2: other}}
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	h := newSilences()
	h.lead(members, at(0))
	h.take(nil, members, at(0))
	h.take(map[uint64]Heard{2: {At: at(time.Hour + time.Minute)}}, members, at(time.Hour))
	if d := h.since(2, at(time.Hour)); d != 0 {
		t.Errorf("a voter is silent for %v", d)
	}
	if said := h.report(members, self, 7, at(time.Hour)); said != nil {
		t.Errorf("published: %v", said.Nodes)
	}
}

// Found by the seeded model, seed 9463368: that a voter is heard was committed after its raft leader had died.
// The next one had said by then what it took over, a silence of 24.6 s, went on from that, and removed the
// voter 6.3 s after its last answer; ReplaceAfter was 30 s. The two are noted in any order.
func TestASilenceEndsWhereTheLogSaysThatTheVoterIsHeard(t *testing.T) {
	t.Parallel()
	members, silent, at := silenceOf(t)
	type news struct{ ttl, at time.Duration }
	was := news{24 * time.Second, -2 * time.Second}
	heard, own := news{0, 10 * time.Millisecond}, news{24590 * time.Millisecond, 20 * time.Millisecond}
	for _, order := range [][]news{{heard, own}, {own, heard}} {
		h := newSilences()
		h.note(silent(was.ttl), at(was.at))
		h.lead(members, at(0))
		h.take(nil, members, at(0))
		for _, n := range order {
			h.note(silent(n.ttl), at(n.at))
		}
		h.take(nil, members, at(time.Second))
		if d := h.since(2, at(time.Second)); d > time.Second {
			t.Errorf("heard %v ago, by the log, it is silent for %v", time.Second-heard.at, d)
		}
	}
	old := newSilences() // what is older than that it is heard counts no more
	old.note(silent(0), at(0))
	old.note(silent(24*time.Second), at(-2*time.Second))
	if len(old.published) > 0 {
		t.Errorf("published: %v", old.published)
	}
}

// Fresh seed 9549517 of the model: that a voter is heard was in a part of the log that a replica took over
// with a snapshot. As raft leader it went on from the silence that it had noted before, and removed the
// voter 7 s after the log had said that it is heard.
func TestASilenceThatASnapshotMayHaveEndedCountsNoMore(t *testing.T) {
	t.Parallel()
	members, silent, at := silenceOf(t)
	l := New(Config{})
	l.Note(silent(24*time.Second), at(-2*time.Second))
	l.Skipped()
	l.silences.lead(members, at(0))
	l.silences.take(nil, members, at(time.Second))
	if d := l.silences.since(2, at(time.Second)); d > time.Second {
		t.Errorf("after a snapshot it is silent for %v, and this node leads for a second", d)
	}
}

// All processes of a fleet stood still for longer than ReplaceAfter, in one term of Raft. At its first look the
// raft leader went by the answers of before: each voter had been heard in this term, so that it did not listen
// anew, and the one whose answer came a moment later than the others' was removed.
func TestAfterAPauseTheRaftLeaderListensThoughItHeardAllBefore(t *testing.T) {
	t.Parallel()
	const (
		gap = 31 * time.Second
		few = time.Second / 2
	)
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	nodes := make(map[uint64]string)
	var known []fsm.NodeRecord
	for replica := range uint64(4) {
		node := fsm.Node{byte(replica + 1)}
		nodes[replica+1] = node.String()
		known = append(known, fsm.NodeRecord{Node: node, Incarnation: 1})
	}
	l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: 30 * time.Second})
	look := func(now, first, others time.Duration) Plan {
		second := Heard{At: at(others), Match: 9}
		plan := l.Plan(State{
			Self: nodes[1], Term: 7, Info: fsm.Info{Born: true, Serving: true, Applied: 9}, Known: known,
			Members: Members{
				Voters: map[uint64]string{1: nodes[1], 2: nodes[2], 3: nodes[3]}, Standbys: map[uint64]string{4: nodes[4]}, Change: 5,
			},
			Heard:    map[uint64]Heard{2: {At: at(first), Match: 9}, 3: second, 4: second},
			Departed: func(string) fsm.Departure { return fsm.Stays },
		}, at(now))
		l.Carried(plan, Done, 5, at(now))
		return plan
	}
	var still time.Duration
	for ; still < time.Minute; still += few {
		look(still, still, still)
	}
	back := still + gap
	if plan := look(back, still, back); plan.Kind != Wait {
		t.Errorf("at the first look after the pause: %+v", plan)
	}
	if plan := look(back+few, back+few, back); plan.Kind != None {
		t.Errorf("when all are heard: %+v", plan)
	}
	still, back = back+few, back+few+gap
	for now := back; now < back+10*time.Second; now += few {
		plan := look(now, still, now)
		if remove := plan.Kind == Remove && plan.Node == nodes[2]; remove != (now-back >= time.Second) {
			t.Fatalf("%v after a pause that one voter did not outlive: %+v", now-back, plan)
		} else if remove {
			return
		}
	}
	t.Error("the dead voter stays")
}
