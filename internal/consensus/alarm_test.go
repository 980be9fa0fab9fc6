package consensus

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

// ward is a group of voters that have nothing but their alarms, and a clock.
type ward struct {
	rand   *rand.Rand
	now    time.Time
	voters map[uint64]string
	ids    []uint64
	alarms map[uint64]*alarm
	leader map[uint64]leader // as each voter knows it
	spoke  map[uint64]wire.Word
	said   map[uint64]time.Time
	found  map[uint64]map[leader]time.Time // when a voter last had a word of its own
	under  []letter
	delay  time.Duration // of a letter, at most
	loss   float64

	campaigns map[uint64]map[uint64]bool // by term: who
	resting   map[uint64]time.Time
}

// letter is a word on its way.
type letter struct {
	from, to uint64
	wire.Word
	due time.Time
}

func newWard(seed uint64, voters int) *ward {
	w := &ward{
		rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), voters: make(map[uint64]string), alarms: make(map[uint64]*alarm),
		leader: make(map[uint64]leader), spoke: make(map[uint64]wire.Word), said: make(map[uint64]time.Time),
		found: make(map[uint64]map[leader]time.Time), campaigns: make(map[uint64]map[uint64]bool), resting: make(map[uint64]time.Time),
	}
	for id := uint64(1); id <= uint64(voters); id++ {
		w.voters[id], w.alarms[id], w.leader[id] = fmt.Sprint(id), &alarm{self: id}, leader{1, 1}
		w.ids, w.found[id] = append(w.ids, id), make(map[leader]time.Time)
	}
	return w
}

// upTo is a random time of d at most.
func (w *ward) upTo(d time.Duration) time.Duration { return time.Duration(w.rand.Int64N(int64(d) + 1)) }

// tick lets a millisecond pass: letters arrive, and each voter takes a step.
func (w *ward) tick(t *testing.T) {
	w.now = w.now.Add(time.Millisecond)
	w.under = slices.DeleteFunc(w.under, func(l letter) bool {
		if l.due.After(w.now) {
			return false
		}
		w.alarms[l.to].word(l.from, l.Word, w.now)
		if l.Lives {
			w.resting[l.to] = w.now
		}
		return true
	})
	for _, id := range w.ids {
		w.step(t, id)
	}
}

func (w *ward) step(t *testing.T, id uint64) {
	present := w.leader[id]
	v := w.alarms[id].step(present, w.voters, w.now)
	if v.say.Leader != 0 {
		if since, rests := w.resting[id]; rests && w.now.Sub(since) < alarmRest && (!v.say.Lives || v.campaign) {
			t.Fatalf("voter %d says %+v, campaign %v, %v after it has heard that a deposed process lives", id, v.say, v.campaign, w.now.Sub(since))
		}
		if !v.say.Lives {
			w.found[id][leader{v.say.Leader, v.say.Term}] = w.now
		}
		w.speak(id, v.say)
	}
	if !v.campaign {
		return
	}
	if w.campaigns[present.term] == nil {
		w.campaigns[present.term] = make(map[uint64]bool)
	}
	if w.campaigns[present.term][id] = true; len(w.campaigns[present.term]) > 1 {
		t.Fatalf("voters %v campaign in term %d", w.campaigns[present.term], present.term)
	}
	found := 0
	for _, other := range w.ids {
		if at, ok := w.found[other][present]; ok && w.now.Sub(at) <= wordFresh+w.delay {
			found++
		}
	}
	if 2*found <= len(w.ids) {
		t.Fatalf("voter %d campaigns in term %d, and %d of %d have found its raft leader gone of late", id, present.term, found, len(w.ids))
	}
}

func (w *ward) speak(id uint64, word wire.Word) {
	if word == w.spoke[id] && w.now.Sub(w.said[id]) < wordEvery {
		return
	}
	w.spoke[id], w.said[id] = word, w.now
	for _, other := range w.ids {
		if other != id && w.rand.Float64() >= w.loss {
			w.under = append(w.under, letter{id, other, word, w.now.Add(w.upTo(w.delay))})
		}
	}
}

// lead makes a voter raft leader of a term, which some of the others learn.
func (w *ward) lead(of leader, learns float64) {
	for _, id := range w.ids {
		if (id == of.replica || w.rand.Float64() < learns) && w.leader[id].term < of.term {
			w.leader[id] = of
		}
	}
}

// disturb does something that happens to voters: alarms true and false, of all and of one, again and
// again; processes that live after all; campaigns that succeed, and elections of other causes.
func (w *ward) disturb() {
	id := w.ids[w.rand.IntN(len(w.ids))]
	switch w.rand.IntN(10) {
	case 0, 1, 2:
		w.alarms[id].lost(w.leader[id], w.rand.Uint64N(4), w.now)
	case 3:
		for _, id := range w.ids {
			w.alarms[id].lost(w.leader[id], w.rand.Uint64N(4), w.now)
		}
	case 4, 5:
		a := w.alarms[id]
		of := cmp.Or(a.own.Leader, a.former.replica)
		if a.own.Leader != of && of != 0 {
			w.resting[id] = w.now
		}
		a.risen(of, w.now)
	case 6, 7:
		for term, who := range w.campaigns {
			for candidate := range who {
				w.lead(leader{candidate, term + 1}, w.rand.Float64())
			}
		}
	case 8:
		last := w.leader[id]
		for _, id := range w.ids {
			last.term = max(last.term, w.leader[id].term)
		}
		w.lead(leader{id, last.term + 1 + w.rand.Uint64N(2)}, w.rand.Float64())
	case 9:
		w.leader[id] = leader{0, w.leader[id].term}
	}
}

func TestAtMostOneVoterCampaignsInATermAndOnlyIfAMajorityHasFoundItsLeaderGone(t *testing.T) {
	t.Parallel()
	campaigns := 0
	for seed := range uint64(4000) {
		w := newWard(seed, 1+int(seed%6))
		w.delay, w.loss = time.Duration(w.rand.IntN(50))*time.Millisecond, w.rand.Float64()/2
		often := w.rand.Float64() / 3
		for range 300 {
			if w.rand.Float64() < often {
				w.disturb()
			}
			if w.rand.Float64() < 0.001 {
				w.now, w.under = w.now.Add(w.upTo(2*alarmRest)), nil
			}
			w.tick(t)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		campaigns += len(w.campaigns)
	}
	if campaigns < 400 {
		t.Errorf("%d campaigns are too few to show anything", campaigns)
	}
}

func TestTheVoterWithTheLongestLogCampaignsSoonAfterTheLeadersDeath(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		w := newWard(seed, 3+int(seed%4))
		w.delay = 3 * time.Millisecond
		best, longest := uint64(0), uint64(0)
		for _, id := range w.ids[1:] {
			last := w.rand.Uint64N(3)
			if last >= longest {
				best, longest = id, last
			}
			w.alarms[id].lost(leader{1, 1}, last, w.now.Add(w.upTo(3*time.Millisecond)))
		}
		for range 15 {
			w.tick(t)
		}
		if !w.campaigns[1][best] {
			t.Fatalf("seed %d: %v campaign, voter %d has the longest log", seed, w.campaigns[1], best)
		}
	}
}

// See TestAVoterThatStaysSucceedsADeadRaftLeader.
func TestOfVotersWithEqualLogsOneThatStaysCampaigns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ last4, want uint64 }{{last4: 5, want: 3}, {last4: 6, want: 4}} {
		w := newWard(1, 4)
		for _, id := range w.ids[1:] {
			last := uint64(5)
			if id == 4 {
				last = c.last4
			}
			w.alarms[id].leaves = map[uint64]bool{4: true}
			w.alarms[id].lost(leader{1, 1}, last, w.now)
		}
		for range 15 {
			w.tick(t)
		}
		if !w.campaigns[1][c.want] {
			t.Errorf("%v campaign; voter 4 leaves, and its log ends at %d", w.campaigns[1], c.last4)
		}
	}
}

// One voter of five is gone with the raft leader: the others wait for its word a moment.
func TestAMajorityNeedNotWaitForAllVoters(t *testing.T) {
	t.Parallel()
	w := newWard(1, 5)
	for _, id := range []uint64{2, 3, 4} {
		w.alarms[id].lost(leader{1, 1}, id%3, w.now)
	}
	w.ids = []uint64{2, 3, 4}
	for began := w.now; w.now.Sub(began) < gatherTime+5*time.Millisecond; {
		w.tick(&testing.T{})
	}
	if !w.campaigns[1][2] {
		t.Errorf("%v campaign", w.campaigns)
	}
}

func TestNoVoterCampaignsOnTheWordOfTwoOfFive(t *testing.T) {
	t.Parallel()
	w := newWard(1, 5)
	for _, id := range []uint64{2, 3} {
		w.alarms[id].lost(leader{1, 1}, 1, w.now)
	}
	for range 1000 {
		w.tick(t)
	}
	if len(w.campaigns) > 0 {
		t.Errorf("%v campaign", w.campaigns)
	}
}

// A proxy that refuses connections for a moment costs one raft leader, and not one after the other.
func TestADeposedLeaderThatLivesSilencesAllForTenSeconds(t *testing.T) {
	t.Parallel()
	w := newWard(1, 3)
	alarmAll := func() {
		for _, id := range w.ids {
			w.alarms[id].lost(w.leader[id], 1, w.now)
		}
		for range 20 {
			w.tick(t)
		}
	}
	alarmAll()
	if !w.campaigns[1][3] {
		t.Fatalf("%v campaign", w.campaigns)
	}
	w.lead(leader{3, 2}, 1)
	w.tick(t)
	w.alarms[3].risen(1, w.now) // the new one hears the old one
	for range 20 {
		w.tick(t)
	}
	for began := w.now; w.now.Sub(began) < alarmRest-100*time.Millisecond; w.now = w.now.Add(time.Second) {
		alarmAll()
	}
	if len(w.campaigns) != 1 {
		t.Errorf("after the first false alarm there were others: %v", w.campaigns)
	}
	w.now = w.now.Add(time.Second)
	if alarmAll(); len(w.campaigns) != 2 {
		t.Errorf("ten seconds later an alarm counts again: %v", w.campaigns)
	}
}

// A voter that had the same word hears the deposed process much later, for followers do not talk: it
// rested again then, in the middle of the next alarm, and told all others to.
func TestAVoterThatWasToldThatAProcessLivesDoesNotRestAgainWhenItHearsThat(t *testing.T) {
	t.Parallel()
	a, now := alarm{self: 2}, time.Unix(1, 0)
	voters := map[uint64]string{1: "a", 2: "b", 3: "c"}
	a.lost(leader{1, 1}, 5, now)
	a.step(leader{3, 2}, voters, now)
	a.word(3, wire.Word{Term: 1, Leader: 1, Lives: true}, now)
	now = now.Add(alarmRest)
	a.risen(1, now)
	if !a.lost(leader{3, 2}, 5, now) {
		t.Fatal("it rests again")
	}
	a.risen(1, now)
	if v := a.step(leader{3, 2}, voters, now); v.say.Leader != 3 || v.say.Lives {
		t.Errorf("its word about another raft leader is gone: %+v", v)
	}
}

func TestAWordThatWasWrongEndsBeforeTheCampaign(t *testing.T) {
	t.Parallel()
	a, now := alarm{self: 2}, time.Unix(1, 0)
	voters := map[uint64]string{1: "a", 2: "b", 3: "c"}
	a.lost(leader{1, 1}, 5, now)
	a.risen(1, now)
	a.word(3, wire.Word{Term: 1, Leader: 1, Last: 5, Pick: 2}, now)
	if v := a.step(leader{1, 1}, voters, now); !v.idle {
		t.Errorf("it goes on: %+v", v)
	}
	a.lost(leader{1, 1}, 5, now)
	if v := a.step(leader{1, 1}, voters, now); v.idle || v.say.Pick == 0 {
		t.Errorf("no rest is due, and a pick of another with its word: %+v", v)
	}
}
