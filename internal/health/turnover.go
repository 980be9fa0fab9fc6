package health

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// TurnoverWithin is the time in which TurnoverMany changes of the raft leader are too many.
	TurnoverWithin = 40 * time.Second
	// TurnoverMany is that number. A rolling update has fewer.
	TurnoverMany  = 10
	turnoverQuiet = 5 * time.Minute // between two reports
)

// Turnover counts the changes of the raft leader. The zero value has seen none.
type Turnover struct {
	term    uint64
	changes [TurnoverMany]lease.Instant // a ring
	next    int
	quiet   lease.Instant // until then nothing is reported
}

// Note takes the term of the known raft leader, and reports whether there have been too many
// changes lately. The first leader that a node knows is no change.
func (t *Turnover) Note(now lease.Instant, term uint64) (many bool) {
	if term <= t.term {
		return false
	}
	first := t.term == 0
	t.term = term
	if first {
		return false
	}
	t.changes[t.next%TurnoverMany] = now
	t.next++
	oldest := t.changes[t.next%TurnoverMany]
	if t.next < TurnoverMany || now-oldest > lease.Instant(TurnoverWithin) || now < t.quiet {
		return false
	}
	t.quiet = now + lease.Instant(turnoverQuiet)
	return true
}
