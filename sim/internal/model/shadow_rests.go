package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// place is one that stays taken after its holder is gone.
type place struct {
	token  uint64
	mode   fsm.Mode
	weight uint32
	lasts  time.Duration
	at     time.Duration // true time of the entry that began it
}

// promise is a minimum hold in true time: until then nobody else has the place.
type promise struct {
	token uint64
	until time.Duration
	share share
	names []string
}

// leave asks for the rest that the end of a grant brings, and for the end of the promise to keep
// its place.
func (sh *shadow) leave(e *fsm.Event, s *share) {
	if e.Kind == fsm.EventWithdrawn {
		return
	}
	want := time.Duration(0)
	if e.Kind == fsm.EventLost {
		want = s.delay.Truncate(time.Millisecond)
	} else if c, ok := sh.cmd.(fsm.Release); ok {
		want = c.Rest.Truncate(time.Millisecond)
	}
	got := time.Duration(0)
	for i := range sh.events {
		if r := &sh.events[i]; r.Kind == fsm.EventResting && r.Name == e.Name && r.Token == e.Token {
			got = r.TTL
		}
	}
	if got != want {
		sh.wrong("a place rests as long as was asked for", "token %d of %q rests for %v, not for %v", e.Token, e.Name, got, want)
	}
	if e.Kind == fsm.EventLost || e.Kind == fsm.EventForced {
		sh.promises = slices.DeleteFunc(sh.promises, func(p promise) bool { return p.token == e.Token })
	}
}

func (sh *shadow) resting(e *fsm.Event) {
	g, ok := sh.grants[e.Token]
	if !ok || g.name != e.Name && !slices.Contains(g.names, e.Name) {
		sh.wrong("only what was held rests", "token %d of %q", e.Token, e.Name)
	}
	l := sh.lock(e.Name)
	l.rests = append(l.rests, place{e.Token, e.Mode, e.Weight, e.TTL, sh.w.now})
	slices.SortFunc(l.rests, func(a, b place) int { return int(a.token) - int(b.token) })
}

func (sh *shadow) rested(e *fsm.Event) {
	l := sh.lock(e.Name)
	at := slices.IndexFunc(l.rests, func(p place) bool { return p.token == e.Token })
	if c, ok := sh.cmd.(fsm.EndRest); !ok || c.Name != e.Name || c.Token != e.Token || at < 0 {
		sh.wrong("only EndRest ends a rest", "token %d of %q", e.Token, e.Name)
		return
	}
	sh.w.rested(l.rests[at])
	l.rests = slices.Delete(l.rests, at, at+1)
}

// kept asks whether a grant takes a place that was promised to somebody for longer.
func (sh *shadow) kept(name string, l *shadowLock, s share) {
	sh.promises = slices.DeleteFunc(sh.promises, func(p promise) bool { return p.until <= sh.w.now })
	others := shadowLock{holders: slices.Clone(l.holders)}
	for _, p := range sh.promises {
		same := func(h share) bool { return h.token == p.token }
		if slices.Contains(p.names, name) && !slices.ContainsFunc(l.holders, same) {
			others.holders = append(others.holders, p.share)
			if !others.fits(s) {
				sh.wrong("a lock stays taken for its minimum hold", "%q is granted %v too early after token %d",
					name, p.until-sh.w.now, p.token)
			}
		}
	}
}
