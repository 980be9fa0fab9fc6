// Package seam is what lies between the calls of a node and its group. The API, the keeper and the
// watches reach the group through Group and nothing else, and everything that crosses is a value
// that can be encoded: commands, outcomes, questions, answers and events of package fsm. So a Group
// need not stand on a replica of its own process: internal/proposer implements it on one.
//
// What must hold of every Group:
//
//	G1  a command that was meant for a group that is given up never goes to the next
//	G2  an error says whether an attempt may have been, or may still be, carried out; without an error there is an outcome
//	G3  what Ask and Pages show of Now is at least what the follower has been told of
//	G4  the follower is told of each command once, in the order of the log, or of a gap: of those at least that concern the
//	    sessions of this process, and the locks that it watches
//
// All methods are safe for concurrent use. The end of a context or of the node ends every call.
// Errors are those of this package, and whatever ended the group for good.
package seam

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Class is how a command is admitted.
type Class uint8

// Classes. Commands of the first two take turns: see Group.Enter.
const (
	Request Class = iota // of a caller that wants a lock
	Holding              // of a holder, or about one: the former do not hold it up, as they would gain nothing by it
	Urgent               // what must not wait behind callers: debts, a hello
	Attempt              // a command that is tried once: its proposer decides on the next attempt, as with keepalives
)

// View is which state answers a question.
type View uint8

// Views.
const (
	// Now is the state as this node knows it, without waiting for any other.
	Now View = iota
	// Committed is a state with all that was committed before the call: a linearizable read.
	Committed
)

// Group is the way to the group.
type Group interface {
	// Enter waits for a turn of the class, in the order of arrival. One Propose of the class, or
	// Leave, ends the turn. Classes that take no turns enter at once.
	Enter(ctx context.Context, class Class) error
	// Leave gives back a turn that was not used.
	Leave(class Class)
	// Propose brings a command to the group after Enter, and returns its outcome. Unless the class
	// is Attempt it repeats the very same command, which the state machine recognises, until there
	// is an outcome or ctx ends. unknown says whether an attempt without an answer may have been
	// carried out, or may still be. The caller may reuse cmd at once.
	Propose(ctx context.Context, class Class, cmd []byte) (out fsm.Outcome, unknown bool, err error)

	// Ask answers a question; of QueryLocks, with the first page alone. Now fails with ErrNoGroup
	// at once where there is no group to ask, and Committed waits for one until ctx ends.
	Ask(ctx context.Context, view View, q fsm.Question) (fsm.Answer, error)
	// Pages answers with all pages, which are of one state however long the caller takes to read
	// them. An error ends them: ErrCut if there were some, and the state is gone.
	Pages(ctx context.Context, view View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error]

	// Follow tells f what is applied from now on, but for commands up to a number, which it knows.
	// It is called once, before everything else.
	Follow(after uint64, f Follower)
	// Watch has the follower told of the lock of this name (exact), or of all whose names begin with
	// it, from the call on. It may wait, until ctx ends at the latest; if the group is out of reach, a
	// gap tells of what was missed meanwhile. end ends it.
	Watch(ctx context.Context, name string, exact bool) (end func())
}

// Follower is told what is applied. Its methods are called one after the other, and must be quick:
// where the group is a replica, commands wait for them.
type Follower interface {
	// Applied takes the events of some commands, which are good until it returns. One of no kind says
	// that there is no news up to its command.
	Applied(events []fsm.Event)
	// Gap says that events are missing up to a command, whose state came as a whole, perhaps of
	// another group; those of later commands follow. ask answers questions of that state or a later
	// one until Gap returns. If it fails, there will be another gap.
	Gap(last uint64, ask func(fsm.Question) (fsm.Answer, error))
	// Ages says how long ago some commands were applied, in their order, where the follower was not
	// there to see it. For people: they are rough, and never too high.
	Ages(ages iter.Seq2[uint64, time.Duration])
}

// Ask is Group.Ask with the answer's own type.
func Ask[A fsm.Answer](ctx context.Context, g Group, view View, q fsm.Asks[A]) (A, error) {
	answer, err := g.Ask(ctx, view, q)
	if err != nil {
		var none A
		return none, err
	}
	return Read(q, answer)
}

// Read returns an answer in its own type.
func Read[A fsm.Answer](q fsm.Asks[A], answer fsm.Answer) (A, error) {
	own, ok := q.Read(answer)
	if !ok {
		return own, fmt.Errorf("holdfast: a %T was answered with a %T", q, answer)
	}
	return own, nil
}

// Locks is Group.Pages lock by lock.
func Locks(ctx context.Context, g Group, view View, q fsm.QueryLocks) iter.Seq2[fsm.LockState, error] {
	return fsm.JoinPages(g.Pages(ctx, view, q))
}

// Lock is the lock of an exact QueryLocks, as a whole.
func Lock(ctx context.Context, g Group, view View, q fsm.QueryLocks) (fsm.LockState, error) {
	q.Exact = true
	for {
		l, err := first(Locks(ctx, g, view, q))
		if !errors.Is(err, ErrCut) || ctx.Err() != nil {
			return l, err
		}
	}
}

func first(locks iter.Seq2[fsm.LockState, error]) (fsm.LockState, error) {
	for l, err := range locks {
		return l, err
	}
	return fsm.LockState{}, nil
}
