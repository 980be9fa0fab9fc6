// Package story makes sense of the record of a run: what every process of a fleet saw and what was
// done to it becomes one history in true time, which the checkers of sim/internal/history and those
// here judge.
//
//	line.go     what is recorded, and the shared resource
//	merge.go    the record becomes a history
//	health.go   who was well, and whether a majority was
//	verdict.go  violations, figures, and whether the run was vacuous
package story

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Kind is what a line tells.
type Kind string

// The kinds.
const (
	KindRun      Kind = "run"       // what the run was asked for: the first line
	KindEvent    Kind = "event"     // what a caller of the locks saw
	KindStatus   Kind = "status"    // a node about itself
	KindStall    Kind = "stall"     // the process, or with Node -1 the disk of all, stood still from From to To
	KindRead     Kind = "read"      // a holder has read the ledger and will write to it
	KindWrite    Kind = "write"     // a write to the ledger; Text is empty, or why it was refused
	KindStart    Kind = "start"     // a process was started
	KindExit     Kind = "exit"      // a process has ended; Text says how
	KindClosing  Kind = "closing"   // the node is about to close or to leave, and gives its leases back
	KindDone     Kind = "done"      // a node has stopped serving for good; Text says why
	KindFault    Kind = "fault"     // a fault begins
	KindFaultEnd Kind = "fault end" // it has been undone
	KindWrong    Kind = "wrong"     // something that must never happen; Text says what
	KindNote     Kind = "note"      // for people
)

// Line is one line of the record. Times are those of the machine's clock since the run began: it is
// the same for all processes.
type Line struct {
	Kind Kind
	From time.Duration // read before what the line tells happened
	To   time.Duration // read after it
	Node int           // number of the process; -1: the fleet
	Life int           `json:",omitempty"` // which process of that number, from 1

	Run    *Run           `json:",omitempty"`
	Event  *history.Event `json:",omitempty"` // its At is not set
	Status *Status        `json:",omitempty"`
	Fault  *Fault         `json:",omitempty"`
	Text   string         `json:",omitempty"`
	Proof  bool           `json:",omitempty"` // of a start: on the disk of the process before it, which is dead
}

// Run is what was asked for.
type Run struct {
	Seed          uint64
	Nodes         int // seats for processes, with the spare ones
	Spares        int // machines on which nothing runs at first, until a disk or a new node comes there
	Clients       int // nodes that are ClientOnly: the last ones
	Replicas      int // Config.Replicas; 0: no bound
	Voters        int
	Diskless      bool          // nothing outlives a process
	ReplaceAfter  time.Duration // Config.ReplaceAfter; 0: the default
	Long          time.Duration // the TTL of locks that are held for long
	SnapshotEvery uint64        // commands between two snapshots of the state; 0: as many as ever, more than there will be
	TTL           time.Duration
	Duration      time.Duration // of the faults
	Faults        []string      `json:",omitempty"` // these kinds alone; empty: all
	Skipped       []string      // what the machine does not allow
}

// Client reports whether a node is ClientOnly.
func (r *Run) Client(node int) bool { return node >= r.Nodes-r.Clients }

// Bounded reports whether the group has its Config.Replicas when nodes run on all machines, so that
// some are clients.
func (r *Run) Bounded() bool { return r.Replicas > 0 && r.Nodes-r.Clients > r.Replicas }

// MayBeFar reports whether a node has no replica at some time.
func (r *Run) MayBeFar(node int) bool { return r.Client(node) || r.Bounded() }

// Status is what a node says about itself.
type Status struct {
	ID, RaftLeader string
	Term           uint64
	Voters         []string
	Served         bool // the group has just answered it
	Ready          bool // and it says that it is ready: it may wait for the voters to be complete
	Far            bool // it has no replica
}

// Fault is something that is done to the fleet.
type Fault struct {
	ID    int
	Name  string
	Nodes []int  // whom it touches
	Text  string // details
}

// Read reads a record. A last line that was cut short is left out.
func Read(r io.Reader) ([]Line, error) {
	var lines []Line
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d of the record: %w", n, err)
		}
		lines = append(lines, l)
	}
}

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
