package fsm

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Code is the answer to a command.
type Code uint8

const (
	CodeOK                Code = iota // carried out, or was before
	CodeGranted                       // the lock is held; Token
	CodeQueued                        // the request waits in the lock's queue
	CodeHeld                          // refused: the lock has a holder or a waiter; Holder, Waiters
	CodeNotHeld                       // at least one of the grants to release is not current, or nobody uses the semaphore to resize
	CodeSessionLost                   // the session has ended or can never open
	CodeFinished                      // the request is over: duplicate of one answered, withdrawn or released
	CodeStaleToken                    // the token is no current grant
	CodeStaleIncarnation              // the node has a newer incarnation, or was forgotten
	CodeUnknownNode                   // no Hello of this incarnation
	CodeNotServing                    // the group does not serve locks yet
	CodeLimitMismatch                 // a name is in use as a semaphore of another limit, or as a lock and asked for as a semaphore, or the other way round
	CodeInvalid                       // malformed, out of bounds, or applied out of order
	CodeUnsupported                   // newer than this replica: it must stop, its state is that of the index before
	CodeTokensExhausted               // no token is left
	CodeTooManyLocks                  // LocksMax
	CodeTooManyWaiters                // WaitersMax
	CodeTooManySessions               // SessionsMax, or NumbersMax
	CodeTooManyNodes                  // NodesMax
	CodeTooManyRequests               // SpansMax, SpansTotalMax
	CodeValuesFull                    // ValuesBytesMax
	CodeDone                          // the Once key is finished; Token, Holder: of the run that finished it
	CodeTooManyKeys                   // KeysMax
	CodeDeadlock                      // refused: it would wait for itself
	CodeForbidden                     // it is about another process's sessions than the proposer's
	CodeTooManyHolders                // HoldersMax
	CodeLater                         // of a batch that had done so much before: not carried out, to be proposed again
	CodeTooManyResized                // ResizesMax
	CodeTooOld                        // a process does not know the level of the group, or the level that it is to rise to
	CodeTooManyQuotas                 // QuotasMax
	CodeOverQuota                     // a quota of the node, or of a prefix of the name; Over
	CodeSessionsOverQuota             // the same of its sessions
	codeEnd
)

// String is the code in lower case.
func (c Code) String() string {
	return named("code", uint8(c),
		"ok", "granted", "queued", "held", "not held", "session lost", "finished", "stale token",
		"stale incarnation", "unknown node", "not serving", "limit mismatch", "invalid", "unsupported",
		"tokens exhausted", "too many locks", "too many waiters", "too many sessions", "too many nodes",
		"too many requests", "values full", "done", "too many keys",
		"deadlock", "forbidden", "too many holders", "later", "too many resized", "too old",
		"too many quotas", "over quota", "sessions over quota",
	)
}

// Outcome is what Apply answers to the proposer.
type Outcome struct {
	Code    Code
	Token   uint64    // of CodeGranted and CodeDone
	Lost    []uint64  // of Keep: sessions that do not exist
	Holder  *Holder   // of CodeHeld: the first holder, if there is one; of CodeDone
	Waiters int       // of CodeHeld
	Over    *Over     // of CodeOverQuota and CodeSessionsOverQuota
	Each    []Outcome // of a Batch: of its commands, in their order, unless it was refused as a whole. Good until the next Apply
}

// outcomeSize is what most outcomes of a batch take: those with a token.
const outcomeSize = 14

// Pack makes the outcome fit a Raft result: the token and the code in one number, and the rest,
// when there is any, encoded.
func (o Outcome) Pack() (value uint64, data []byte) {
	for _, number := range o.Lost {
		data = protowire.AppendTag(data, 1, protowire.VarintType)
		data = protowire.AppendVarint(data, number)
	}
	if o.Holder != nil {
		out := writing(data)
		nested(&out, 2, o.Holder, (*Holder).fields)
		data = out.out
	}
	data = appendUint(data, 3, uint64(o.Waiters))
	if o.Over != nil {
		out := writing(data)
		nested(&out, 5, o.Over, (*Over).fields)
		data = out.out
	}
	if len(o.Each) > 0 {
		data = appendEach(slices.Grow(data, len(o.Each)*outcomeSize), o.Each)
	}
	return o.Token<<8 | uint64(o.Code), data
}

// Unpack is the inverse of Pack.
func Unpack(value uint64, data []byte) (Outcome, error) { return unpack(value, data, true) }

func unpack(value uint64, data []byte, whole bool) (Outcome, error) {
	o := Outcome{Code: Code(value), Token: value >> 8}
	if o.Code >= codeEnd || o.Token > TokenMax {
		return Outcome{}, fmt.Errorf("holdfast: outcome %#x: %w", value, ErrMalformed)
	}
	f := fields{rest: data}
	if n := count(data, 4); whole && n > 0 {
		o.Each = make([]Outcome, 0, min(n, BatchMax))
	}
	for f.next() {
		switch f.number {
		case 1:
			o.Lost = f.appendUints(o.Lost)
		case 2:
			o.Holder = new(Holder)
			f.check(read(f.message(), o.Holder))
		case 3:
			o.Waiters = int(f.uint32())
		case 5:
			o.Over = new(Over)
			f.check(read(f.message(), o.Over))
		case 4:
			if !whole || len(o.Each) == BatchMax {
				f.fail()
				break
			}
			each, err := unpackPart(f.message())
			f.check(err)
			o.Each = append(o.Each, each)
		}
	}
	if f.err != nil {
		return Outcome{}, fmt.Errorf("holdfast: outcome: %w", f.err)
	}
	return o, nil
}

// count is how many fields of a number there are.
func count(data []byte, number protowire.Number) (n int) {
	for f := (fields{rest: data}); f.next(); {
		if f.number == number {
			n++
		}
	}
	return n
}

func (h *Holder) fields(f *codec) {
	f.session(1, &h.Session)
	f.uint(2, &h.Request)
	f.text(3, &h.NodeName)
	f.uint(5, &h.Token)
	f.uint(9, &h.Granted)
	h.Terms.ofHolder(f)
}

// Left is what an Acquire that was answered with this code has left in the group: whether its
// session is open, and what became of its request, as Machine.Request says. RequestUnknown: a late
// duplicate may still be carried out. What it says of the session holds for a SetValue and a
// Withdraw, too, and what it says of the requests for a Withdraw.
func (c Code) Left() (open bool, request RequestState) {
	switch c {
	case CodeGranted:
		return true, RequestGranted
	case CodeQueued:
		return true, RequestWaiting
	case CodeOK, CodeFinished, CodeHeld, CodeLimitMismatch, CodeDeadlock, CodeDone,
		CodeTokensExhausted, CodeTooManyLocks, CodeTooManyWaiters, CodeTooManyHolders, CodeTooManyKeys, CodeValuesFull,
		CodeOverQuota:
		return true, RequestFinished
	case CodeTooManyRequests, CodeStaleToken:
		return true, RequestUnknown
	case CodeSessionLost, CodeStaleIncarnation:
		return false, RequestSessionLost
	}
	return false, RequestUnknown
}
