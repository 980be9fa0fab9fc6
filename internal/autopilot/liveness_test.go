package autopilot

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// A process that asks for a replica, and has begun no later life than the one that its node's replica
// is of, runs on a copy of the node's directory. It is told so: it waited for ever, where the raft leader
// removed its former replica before the others refused to hear it.
func TestWhoAsksForALifeThatItsNodeHasHadIsACopy(t *testing.T) {
	t.Parallel()
	const node, other = "a", "b"
	life := func(n, random uint64) uint64 { return n<<8 | random }
	l := New(Config{LaterLife: func(_ string, known, next uint64) bool { return next>>8 > known>>8 }})
	standby := Members{Standbys: map[uint64]string{life(1, 5): node, 77: other}}
	voter := Members{Voters: map[uint64]string{life(1, 5): node}}
	for _, c := range []struct {
		members Members
		asks    uint64
		want    bool
	}{
		{standby, life(1, 6), true},
		{voter, life(1, 6), true},
		{standby, life(0, 1), true},
		{standby, life(2, 6), false},
		{Members{Voters: map[uint64]string{77: other}}, life(1, 6), false},
	} {
		news := l.News(State{Self: other, Members: c.members, Seen: []Sighting{{Node: node, Replica: c.asks, Phase: PhaseJoining, Here: true}}}, 1)
		if got := len(news) == 1 && news[0].DuplicateDirectory; got != c.want {
			t.Errorf("replica %#x beside %v: %v, want %v", c.asks, c.members, got, c.want)
		}
	}
}

// Where the start of forty processes keeps a machine busy, a change of the membership comes too
// late now and then, or a raft leader goes by a membership of a moment ago. Each was taken for the
// group's no, and the newcomer was left alone for 30 s: of forty nodes one was ready after 47 s,
// and all others after 20.
func TestOnlyTheGroupsOwnNoLeavesANewcomerAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		out  Outcome
		now  uint64
		want bool
	}{
		{"refused as it is", Refused, 95, true},
		{"another change came before", Refused, 99, false},
		{"no answer in time", Unknown, 95, false},
		{"never proposed", Failed, 95, false},
	} {
		l := New(Config{})
		l.asks = map[string]uint64{"a": 7}
		l.Carried(Plan{Kind: AddStandby, Node: "a", Index: 95}, c.out, c.now, 1)
		if got := l.turnedDown(7, 2); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestABarrierFollowsWhateverHasNoOutcome(t *testing.T) {
	t.Parallel()
	l := New(Config{Want: 1})
	s := State{
		Self: "a", Members: Members{Voters: map[uint64]string{1: "a"}, Change: 5}, Info: fsm.Info{Born: true, Serving: true},
		Departed: func(string) fsm.Departure { return fsm.Stays },
	}
	for _, c := range []struct {
		carried Plan
		out     Outcome
		barrier bool
	}{
		{Plan{}, Unknown, true}, // of nothing: it has just become raft leader
		{Plan{Kind: Barrier}, Unknown, true},
		{Plan{Kind: Barrier}, Failed, true},
		{Plan{Kind: Barrier}, Done, false},
		{Plan{Kind: Remove}, Unknown, true},
		{Plan{Kind: Remove}, Refused, false},
	} {
		if c.carried.Kind != None {
			l.Carried(c.carried, c.out, 5, 1)
		}
		if plan := l.Plan(s, 2); (plan.Kind == Barrier) != c.barrier {
			t.Errorf("after %v, outcome %d: %v", c.carried.Kind, c.out, plan.Kind)
		}
	}
}

// A voter dies, and 100 ms later another says that it leaves: the first counts as heard a moment
// ago. The group let the other go at once, and was two voters of which one was dead: with a standby
// that was not ready to vote yet it was lost, in three of seven runs of real processes. A voter that
// stays must be heard after the word of the one that leaves.
func TestNobodyIsLetGoOnTheWordOfOneThatDiedAMomentAgo(t *testing.T) {
	t.Parallel()
	const ms = lease.Instant(time.Millisecond)
	leaves := false
	l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: 30 * time.Second})
	l.Carried(Plan{Kind: Barrier}, Done, 5, 1)
	heard := map[uint64]Heard{2: {}, 3: {}}
	plan := func(b, now lease.Instant) Plan {
		heard[2], heard[3] = Heard{At: b}, Heard{At: now}
		return l.Plan(State{
			Self: "a", Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
			Info: fsm.Info{Born: true, Serving: true}, Heard: heard,
			Departed: func(node string) fsm.Departure {
				if leaves && node == "c" {
					return fsm.Leaves
				}
				return fsm.Stays
			},
		}, now)
	}
	if p := plan(1000*ms, 1000*ms); p.Kind > Wait {
		t.Fatalf("before: %+v", p)
	}
	leaves = true
	for now := 2100 * ms; now < 31_000*ms; now += 50 * ms {
		if p := plan(2000*ms, now); p.Kind == Remove {
			t.Fatalf("%v after the other was heard last: %+v", time.Duration(now-2000*ms), p)
		}
	}
	if p := plan(31_010*ms, 31_020*ms); p.Kind != Remove || p.Node != "c" {
		t.Errorf("when the other is heard: %+v", p)
	}
}

// One that had said that it leaves is gone, and another says so, between two looks: as many leave
// as before, and the other's word is as new.
func TestTheWordOfASecondLeaverCountsThoughTheFirstIsGone(t *testing.T) {
	t.Parallel()
	const ms = lease.Instant(time.Millisecond)
	departed := map[string]fsm.Departure{"b": fsm.Leaves}
	l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: 30 * time.Second})
	s := State{
		Self: "a", Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
		Info: fsm.Info{Born: true, Serving: true}, Departed: func(node string) fsm.Departure { return departed[node] },
	}
	l.input(s, 1000*ms)
	if d := l.input(s, 1500*ms).Changed; d != 500*time.Millisecond {
		t.Fatalf("half a second after the first word it is %v old", d)
	}
	departed["b"], departed["c"] = fsm.Gone, fsm.Leaves
	if d := l.input(s, 2000*ms).Changed; d > time.Nanosecond {
		t.Errorf("a new word is %v old", d)
	}
}

// The group may have lost a voter a moment before a change. A removal that follows counts on those
// alone that were heard since.
func TestAVoterIsRemovedOnlyOnTheWordOfThoseHeardSinceTheLastChange(t *testing.T) {
	t.Parallel()
	l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: time.Minute})
	second := func(n float64) lease.Instant { return lease.Instant(n * float64(time.Second)) }
	s := State{
		Self: "a", Info: fsm.Info{Born: true, Serving: true},
		Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
		Departed: func(node string) fsm.Departure {
			if node == "c" {
				return fsm.Gone
			}
			return fsm.Stays
		},
	}
	for _, c := range []struct {
		now, heard lease.Instant // b, by the raft leader
		change     uint64
		want       Kind
	}{
		{second(1), second(1), 5, Barrier}, // it has just become raft leader
		{second(2.9), second(2.8), 5, Remove},
		{second(4), second(3.9), 6, Wait},
		{second(4.5), second(3.9), 6, Wait},
		{second(4.5), second(4.2), 6, Remove},
	} {
		s.Members.Change, s.Heard = c.change, map[uint64]Heard{2: {At: c.heard}}
		plan := l.Plan(s, c.now)
		if plan.Kind != c.want {
			t.Errorf("at %v, b heard at %v: %v, %s", c.now, c.heard, plan.Kind, plan.Reason)
		}
		if plan.Kind == Barrier {
			l.Carried(plan, Done, c.change, c.now)
		}
	}
}

// An order counts for ten seconds, and is refused for a replica that is heard, or for the last voter;
// a raft leader that has just begun says neither.
func TestAnOrderIsRefusedWhereItMustNotBeCarriedOut(t *testing.T) {
	t.Parallel()
	const ms = lease.Instant(time.Millisecond)
	const a, b = "01000000-0000-0000-0000-000000000000", "02000000-0000-0000-0000-000000000000"
	for _, c := range []struct {
		name        string
		target      string
		voters      map[uint64]string
		silent, now lease.Instant
		refusal     fsm.Reason
		removes     bool
	}{
		{"heard", b, map[uint64]string{1: a, 2: b, 3: "c"}, 0, 5000 * ms, fsm.ReasonHeard, false},
		{"silent", b, map[uint64]string{1: a, 2: b, 3: "c"}, 1500 * ms, 5000 * ms, 0, true},
		{"silent, long ago ordered", b, map[uint64]string{1: a, 2: b, 3: "c"}, 1500 * ms, 14_000 * ms, 0, false},
		{"the raft leader itself", a, map[uint64]string{1: a, 2: b, 3: "c"}, 0, 5000 * ms, fsm.ReasonHeard, false},
		{"the last voter", a, map[uint64]string{1: a}, 0, 5000 * ms, fsm.ReasonLast, false},
		{"a raft leader that has just begun", b, map[uint64]string{1: a, 2: b, 3: "c"}, 0, 1500 * ms, 0, false},
	} {
		l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: time.Hour})
		node, err := fsm.ParseNode(c.target)
		if err != nil {
			t.Fatal(err)
		}
		state := func(now lease.Instant) State {
			return State{
				Self: a, Members: Members{Voters: c.voters, Change: 5}, Info: fsm.Info{Born: true, Serving: true},
				Heard: map[uint64]Heard{2: {At: now - c.silent}, 3: {At: now}}, Departed: func(string) fsm.Departure { return fsm.Stays },
			}
		}
		l.Plan(state(1000*ms), 1000*ms)
		l.Carried(Plan{Kind: Barrier}, Done, 5, 1000*ms)
		l.Plan(state(1100*ms), 1100*ms) // the membership is known from here on
		l.Note(&fsm.Event{Kind: fsm.EventEvict, Index: 9, Session: fsm.SessionID{Node: node}, Detail: "burnt"}, 2000*ms)
		for at := 2000 * ms; at < c.now; at += 1000 * ms {
			l.Plan(state(at), at)
		}
		plan := l.Plan(state(c.now), c.now)
		refused := l.Refusal(state(c.now), plan, c.now)
		if (plan.Kind == Remove) != c.removes || (refused != nil) != (c.refusal != 0) {
			t.Errorf("%s: %v, refused with %v", c.name, plan, refused)
		} else if refused != nil && (refused.Refusal != c.refusal || refused.Seen != 9) {
			t.Errorf("%s: refused with %+v", c.name, refused)
		}
	}
}

// Seed 10075012 of the model: the raft leader's process stood still for long, and the first answer that it read
// after that was one of before. A voter that had lacked an entry at the last look was removed at once, as one that
// had made no progress for all that time.
func TestARaftLeaderThatStoodStillListensAnew(t *testing.T) {
	t.Parallel()
	second := func(n float64) lease.Instant { return lease.Instant(n * float64(time.Second)) }
	l := New(Config{Want: 3, Moment: time.Second, ReplaceAfter: 10 * time.Second})
	look := func(at float64) (b Member) {
		now := second(at)
		l.Plan(State{
			Self: "a", Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
			Info:     fsm.Info{Born: true, Serving: true, Applied: 9},
			Heard:    map[uint64]Heard{2: {At: now, Match: 8, Snapshot: -second(1000)}, 3: {At: now, Match: 9}},
			Departed: func(string) fsm.Departure { return fsm.Stays },
		}, now)
		for _, m := range l.Members() {
			if m.Node == "b" {
				b = m
			}
		}
		return b
	}
	for at := 1.0; at < 4; at += 0.5 {
		look(at)
	}
	for at := 20.0; at < 30; at += 0.5 { // it ran no more in between
		if b := look(at); b.Heard > time.Duration(second(at-20)) {
			t.Fatalf("at %v it counts as not heard for %v", at, b.Heard)
		}
	}
	if b := look(30.5); !b.Stuck || b.Heard < 10*time.Second {
		t.Errorf("at the end %+v", b)
	}
}

// A hung disk, or a link that loses large packets, leaves the heartbeats of a voter alone: it counts
// as one that is not heard. A snapshot that is on its way is progress, and so is any acknowledgement.
func TestAVoterThatIsHeardWithoutProgressCountsAsNotHeard(t *testing.T) {
	t.Parallel()
	second := func(n int) lease.Instant { return lease.Instant(n) * lease.Instant(time.Second) }
	for name, c := range map[string]struct {
		match    func(now int) uint64 // of b. The group commits an entry each second
		snapshot func(now int) lease.Instant
		stuck    bool
	}{
		"stuck":              {func(int) uint64 { return 5 }, nil, true},
		"behind, and moves":  {func(now int) uint64 { return uint64(now / 2) }, nil, false},
		"has all":            {func(now int) uint64 { return uint64(now) }, nil, false},
		"gets a snapshot":    {func(int) uint64 { return 5 }, second, false},
		"had one for a time": {func(int) uint64 { return 5 }, func(now int) lease.Instant { return second(min(now, 20)) }, true},
	} {
		l := New(Config{Want: 3, Moment: 3 * time.Second, ReplaceAfter: 30 * time.Second})
		var b Member
		for now := 10; now < 60; now++ {
			heard := Heard{At: second(now), Match: c.match(now), Snapshot: -second(1000)}
			if c.snapshot != nil {
				heard.Snapshot = c.snapshot(now)
			}
			l.Plan(State{
				Self: "a", Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
				Info:     fsm.Info{Born: true, Serving: true, Applied: uint64(now)},
				Heard:    map[uint64]Heard{2: heard, 3: {At: second(now), Match: uint64(now)}},
				Departed: func(string) fsm.Departure { return fsm.Stays },
			}, second(now))
			for _, m := range l.Members() {
				if m.Node == "b" {
					b = m
				} else if m.Node == "c" && m.Heard > 0 {
					t.Fatalf("%s: c counts as not heard for %v", name, m.Heard)
				}
			}
		}
		if b.Stuck != c.stuck || c.stuck && b.Heard < 30*time.Second || !c.stuck && b.Heard > 0 {
			t.Errorf("%s: at the end %+v", name, b)
		}
	}
}

// A dead voter lacks what is committed after its death. It counted as stuck, and its replacement,
// which changed the membership, had to wait for another ReplaceAfter.
func TestASilentVoterIsNotStuck(t *testing.T) {
	t.Parallel()
	l := New(Config{Want: 3, Moment: 3 * time.Second, ReplaceAfter: 30 * time.Second})
	for now := lease.Instant(10e9); now < 60e9; now += 1e9 {
		l.Plan(State{
			Self: "a", Members: Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "c"}, Change: 5},
			Info:     fsm.Info{Born: true, Serving: true, Applied: uint64(now)},
			Heard:    map[uint64]Heard{2: {At: 10e9, Match: 5, Snapshot: -1000e9}, 3: {At: now, Match: uint64(now)}},
			Departed: func(string) fsm.Departure { return fsm.Stays },
		}, now)
		for _, m := range l.Members() {
			if m.Stuck {
				t.Fatalf("after %v: %+v", time.Duration(now), m)
			}
		}
	}
}

func TestARaftLeaderThatLeavesGivesWayToTheFollowerThatHasTheMost(t *testing.T) {
	t.Parallel()
	in := Input{Self: "a", Want: 3, Listening: time.Minute, Members: []Member{
		{Node: "a", Role: Voter, Departure: fsm.Leaves}, {Node: "b", Role: Voter, Behind: 900}, {Node: "c", Role: Voter, Behind: 7},
		{Node: "d", Role: Voter, Behind: 80}, {Node: "e", Role: Voter, Heard: 10 * time.Second},
	}}
	if plan := Next(in); plan.Kind != HandOver || plan.Node != "c" {
		t.Errorf("%v to %s, %s", plan.Kind, plan.Node, plan.Reason)
	}
}

// A raft leader was stopped for longer than ReplaceAfter, lost its place and had it again between two
// polls, while a call of its own held up the poll: seed 9300465 of the model. It counted from before,
// and removed a voter that it had not asked yet.
func TestARaftLeaderOfALaterTermListensAgainBeforeItRemoves(t *testing.T) {
	t.Parallel()
	w := newWiped()
	w.old.Here, w.heir.Here = false, false
	if p := w.after(20 * time.Second); p.Kind > Wait {
		t.Fatalf("%v", p)
	}
	w.now += lease.Instant(time.Minute)
	w.s.Heard = map[uint64]Heard{2: {At: w.now}}
	w.s.Term++
	w.s.Members.Standbys, w.s.Heard[4] = map[uint64]string{4: heirID}, Heard{At: w.now, Match: 1}
	w.s.Known = append(w.s.Known, record(heirID))
	for range 20 {
		switch p := w.after(100 * time.Millisecond); p.Kind {
		case Barrier:
			w.l.Carried(p, Done, 5, w.now)
		case Remove, Promote:
			t.Fatalf("%v of %s after %v", p.Kind, p.Node, w.now)
		}
	}
	if p := w.after(40 * time.Second); p.Kind != Remove || p.Node != "old" {
		t.Errorf("%v of %s, though it was not heard for long", p.Kind, p.Node)
	}
}
