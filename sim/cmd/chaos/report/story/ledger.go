package story

import (
	"bufio"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Entry is one line of a ledger, the shared resource. Every holder reads the number of the last
// entry, thinks, and appends the next number: an entry that is based on another one than that
// before it has overwritten somebody's work.
type Entry struct {
	N, Based uint64
	Token    uint64
	Node     int
}

// String is the entry as it stands in the ledger.
func (e Entry) String() string { return fmt.Sprintln(e.N, e.Based, e.Token, e.Node) }

// ReadLedger reads a whole ledger.
func ReadLedger(r io.Reader) (all []Entry, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e Entry
		if _, err := fmt.Sscan(lines.Text(), &e.N, &e.Based, &e.Token, &e.Node); err != nil {
			return nil, fmt.Errorf("line %d of the ledger: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}

// Lost counts the updates that a later entry did not know of.
func Lost(ledger []Entry) (n int) {
	for i, e := range ledger {
		if i > 0 && e.Based != ledger[i-1].N || i == 0 && e.Based != 0 {
			n++
		}
	}
	return n
}

// fenced finds what must not be in the ledger that checks tokens.
func fenced(ledger []Entry) (found []history.Violation) {
	for i, e := range ledger {
		if i == 0 {
			continue
		}
		before := ledger[i-1]
		if e.Token < before.Token {
			found = append(found, violation("no stale token writes", 0, LedgerLock, "entry %d has token %d after %d", e.N, e.Token, before.Token))
		}
		if e.Based != before.N {
			found = append(found, violation("no update is lost behind the guard", 0, LedgerLock,
				"entry %d of token %d is based on %d, and not on %d of token %d", e.N, e.Token, e.Based, before.N, before.Token))
		}
	}
	return found
}
