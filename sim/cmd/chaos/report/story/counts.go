package story

import (
	"fmt"

	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// Kinds count what happened of each kind of lock beside the plain one.
type Kinds struct {
	Sets        int // had together
	Tenures     int // of leaders of the election
	Observed    int // leaders and vacancies that observers were told of
	MinHolds    int // locks released before their minimum hold time
	Delays      int // locks lost that stayed taken for a while
	Checkpoints int // written over the one before
	Forced      int // locks that an operator freed
	Told        int // changes that watchers were told of
	Resyncs     int // gaps that they were told of
	Longs       int // grants with a TTL of their own
	Revoked     int // nodes that an operator has revoked
}

// kindsOf counts.
func kindsOf(h []history.Event) (k Kinds) {
	asked := make(map[uint64]history.Event)
	grants := make(map[uint64]history.Event) // Asked by token
	for _, e := range h {
		switch e.Kind {
		case history.Asked:
			asked[e.Op] = e
		case history.Granted:
			a := asked[e.Op]
			grants[e.Token] = a
			if len(a.Others) > 0 {
				k.Sets++
			}
			if a.TTL > 0 {
				k.Longs++
			}
			if a.Election {
				k.Tenures++
			}
		case history.Released:
			if grants[e.Token].MinHold > 0 {
				k.MinHolds++
			}
		case history.Ended:
			if grants[e.Token].LockDelay > 0 && e.Cause != history.CauseReleased {
				k.Delays++
			}
		case history.Done:
			if e.OK && e.Lock == workload.Checkpoint {
				k.Checkpoints++
			}
		case history.Forced:
			if e.OK {
				k.Forced++
			}
		case history.Revoked:
			if e.OK {
				k.Revoked++
			}
		case history.Observed:
			k.Observed++
		case history.Told:
			k.Told++
			if e.Change == history.ChangeResync {
				k.Resyncs++
			}
		}
	}
	return k
}

// vacuous says what there was too little of.
func (k Kinds) vacuous(seconds int) (why []string) {
	for _, want := range []struct {
		what     string
		n, least int
	}{
		{"sets had together", k.Sets, seconds / 10}, {"tenures of leaders", k.Tenures, seconds / 10},
		{"leaders that observers were told of", k.Observed, seconds / 5}, {"minimum hold times", k.MinHolds, seconds / 20},
		{"lock delays", k.Delays, seconds / 60}, {"checkpoints", k.Checkpoints, seconds / 10}, {"locks freed by force", k.Forced, seconds / 60},
		{"changes that watchers were told of", k.Told, seconds}, {"grants with a long TTL", k.Longs, seconds / 20},
	} {
		if least := max(1, want.least); want.n < least {
			why = append(why, fmt.Sprintf("%s: %d, at least %d", want.what, want.n, least))
		}
	}
	return why
}
