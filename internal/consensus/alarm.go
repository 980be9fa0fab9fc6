package consensus

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

// alarm decides whether this voter campaigns at once, because the process of the raft leader is
// gone. It is passive: failover.go feeds it and carries out what it says. Voters tell each other
// what they have found; each picks the one with the longest log as soon as a majority has found the
// same, of several the one that does not leave the group (see yield.go), and a voter campaigns that a
// majority has picked. What must hold:
//
//	A1  at most one voter campaigns by it in a term: a voter picks once a term
//	A2  no voter campaigns unless a majority has found the process gone within the last wordFresh
//	A3  a voter that learns that a deposed process lives says and picks nothing for alarmRest
//
// Safety does not rest on it: a campaign is one of Raft. A wrong one deposes a raft leader that
// lives, and a missing one costs the election timeout.
type alarm struct {
	self   uint64
	own    wire.Word // about the present raft leader; Leader 0: none
	since  time.Time // of own
	words  map[uint64]freshWord
	leaves map[uint64]bool // voters that leave the group, as known here
	former leader          // of the last own word, once the term has moved; replica 0: none
	denied wire.Word       // said until lives: that a former raft leader lives
	lives  time.Time
	rest   time.Time // until then it says nothing else
	picked leader    // replica is the voter picked, in the term
}

type freshWord struct {
	wire.Word
	at time.Time
}

const (
	wordFresh  = 100 * time.Millisecond // a word counts for so long, and is said again before that
	wordEvery  = 10 * time.Millisecond
	gatherTime = 20 * time.Millisecond // for the words of all others, beyond those of a majority
	alarmRest  = 10 * time.Second
	alarmMax   = 10 * time.Second // of a word: by then the engine has campaigned
	alarmWords = 64               // of voters and others
)

// verdict is what to do now.
type verdict struct {
	say      wire.Word // to all other voters, unless Leader is 0
	campaign bool
	idle     bool // nothing to do until there is news
}

// lost notes that the process of the raft leader is gone, and how far the own log reaches: that
// stands, so that all voters pick alike. It returns false while the alarm rests.
func (a *alarm) lost(of leader, last uint64, now time.Time) bool {
	if now.Before(a.rest) || of.replica == 0 || of.replica == a.self {
		return false
	}
	if of == a.about() {
		return true
	}
	a.own, a.since = wire.Word{Term: of.term, Leader: of.replica, Last: last}, now
	if a.picked.term == of.term {
		a.own.Pick = a.picked.replica
	}
	return true
}

// risen notes that a process that was gone is heard, by its replica.
func (a *alarm) risen(replica uint64, now time.Time) {
	switch replica {
	case a.own.Leader:
		a.own = wire.Word{}
	case a.former.replica:
		a.denied = wire.Word{Term: a.former.term, Leader: a.former.replica, Lives: true}
		a.former = leader{}
		a.rest, a.lives = now.Add(alarmRest), now.Add(wordFresh)
	}
}

// word notes what another voter says.
func (a *alarm) word(from uint64, w wire.Word, now time.Time) {
	for voter, old := range a.words {
		if now.Sub(old.at) >= wordFresh {
			delete(a.words, voter)
		}
	}
	switch {
	case w.Lives:
		delete(a.words, from)
		a.own, a.rest = wire.Word{}, now.Add(alarmRest)
		if a.former.replica == w.Leader {
			a.former = leader{} // or this voter would say so, too, when it hears that one, and rest again
		}
		return
	case a.words == nil:
		a.words = make(map[uint64]freshWord)
	}
	if _, known := a.words[from]; known || len(a.words) < alarmWords {
		a.words[from] = freshWord{w, now}
	}
}

// about is the raft leader of the own word.
func (a *alarm) about() leader { return leader{a.own.Leader, a.own.Term} }

// step is what to do, given the raft leader and the voters as known here.
func (a *alarm) step(present leader, voters map[uint64]string, now time.Time) verdict {
	if of := a.about(); of.replica != 0 && of != present {
		if present.term > of.term {
			a.former = of
		}
		a.own = wire.Word{}
	}
	if a.own.Leader == 0 && now.Before(a.lives) {
		return verdict{say: a.denied}
	}
	if _, votes := voters[a.self]; a.own.Leader == 0 || !votes || now.Sub(a.since) > alarmMax {
		a.own = wire.Word{}
		return verdict{idle: true}
	}
	c := a.count(voters, now)
	if majority := 2*c.words > len(voters); !majority {
		return verdict{say: a.own}
	}
	if a.own.Pick == 0 && (c.silent == 0 || now.Sub(a.since) >= gatherTime) {
		a.own.Pick, a.picked = c.best, leader{c.best, a.own.Term}
		c.picks[c.best]++
	}
	return verdict{say: a.own, campaign: 2*c.picks[a.self] > len(voters)}
}

// said is what the voters say that agree with the own word.
type said struct {
	words  int
	silent int            // voters that do not, beside the raft leader
	best   uint64         // the voter with the longest log, one that stays if it can be
	picks  map[uint64]int // by voter picked
}

func (a *alarm) count(voters map[uint64]string, now time.Time) said {
	t := said{words: 1, best: a.self, picks: map[uint64]int{a.own.Pick: 1}}
	longest := a.own.Last
	better := func(voter, last uint64) bool {
		switch {
		case last != longest:
			return last > longest
		case a.leaves[voter] != a.leaves[t.best]:
			return a.leaves[t.best]
		}
		return voter > t.best
	}
	for voter := range voters {
		if voter == a.self || voter == a.own.Leader {
			continue
		}
		w, ok := a.words[voter]
		if !ok || now.Sub(w.at) >= wordFresh || w.Term != a.own.Term || w.Leader != a.own.Leader {
			t.silent++
			continue
		}
		t.words++
		t.picks[w.Pick]++
		if better(voter, w.Last) {
			longest, t.best = w.Last, voter
		}
	}
	delete(t.picks, 0)
	return t
}
