package fsm

import "time"

// Bounds on a single command. A command beyond one of them is answered CodeInvalid. Part of the
// replicated machine.
const (
	NameBytesMax  = 512               // a lock's or a node's name
	LabelBytesMax = 1024              // a holder's label, the reason of a forced release
	ValueBytesMax = 64 << 10          // one lock's value
	LimitMax      = 1<<31 - 1         // permits of one lock
	TTLMax        = 24 * time.Hour    // a session's TTL
	TTLMin        = time.Millisecond  // a session's TTL; the public API asks for more
	SetMax        = 64                // names of one set
	ListMax       = 16                // grants of one Release, requests of one Withdraw: each may be a set of SetMax
	RenewMax      = 4096              // sessions of one Keep
	WhileMax      = 16                // tokens that a caller holds while it waits for another
	RestMax       = 24 * time.Hour    // how long a place rests
	KeepMax       = 87600 * time.Hour // how long a Once key is remembered: ten years
	BootBytesMax  = 64                // the name of a machine's boot
	TokenMax      = 1<<53 - 1         // the highest fencing token: JSON and JavaScript hold it exactly
	TokenBits     = 20                // tokens of a second: a counter begins at unix seconds << TokenBits, and no group grants more
)

// TokensIn is how many tokens a duration of 0 or more has room for: no group grants more in it. Of
// a time since 1970 it is what a counter begins at.
func TokensIn(d time.Duration) uint64 {
	return uint64(d/time.Second)<<TokenBits + uint64(d%time.Second)<<TokenBits/uint64(time.Second)
}

// Bounds on the state as a whole (I7). Each has its code, but for ForgottenMax: the oldest
// forgotten node is dropped. A waiter that was queued before its lock has HoldersMax waits on. Part
// of the replicated machine.
const (
	LocksMax       = 4_000_000 // names in use, and grants together with rests: CodeTooManyLocks
	WaitersMax     = 1_000_000 // waiters of all locks: CodeTooManyWaiters
	HoldersMax     = 10_000    // holders of one lock, and places that rest: CodeTooManyHolders
	SessionsMax    = 1_000_000 // open sessions: CodeTooManySessions
	NodesMax       = 10_000    // nodes with a process that is not over: CodeTooManyNodes
	ForgottenMax   = 10_000    // forgotten nodes whose late commands are still told apart
	SpansMax       = 65_536    // runs of finished request numbers remembered for one session: CodeTooManyRequests
	NumbersMax     = 4096      // runs of used session numbers remembered for one node, which are dropped at once: CodeTooManySessions
	SpansTotalMax  = 4_000_000 // the same for all sessions: CodeTooManyRequests
	ValuesBytesMax = 256 << 20 // all values, those of waiters included, and the reasons of Ask: CodeValuesFull
	KeysMax        = 4_000_000 // Once keys that are remembered: CodeTooManyKeys
	PastMax        = 16        // grants of one lock that are over and remembered: the oldest is dropped
	PastLocksMax   = 4096      // locks with such grants: the one whose last grant ended first is dropped
	QuotasMax      = 256       // quotas: CodeTooManyQuotas
	ResizesMax     = 4096      // semaphores that were resized: one that nobody uses is dropped, or CodeTooManyResized
)

// commandsMax is the highest number of a command that is believed of a snapshot: no group gets
// there, and nothing overflows.
const commandsMax = 1 << 62

// Limits are lower bounds on the state than this package's own, for tests of what stands on it: all
// machines of a group must have the same, and a snapshot does not carry them. Zero stands for this
// package's.
type Limits struct {
	Locks, Waiters, Sessions, Nodes int
	Spans                           int // for one session, and numbers of sessions for one node
	ValueBytes                      int64
	Step                            int // claims that one command takes away, no bound on the state
}

// NewLimited is New with lower bounds.
func NewLimited(l Limits) *Machine {
	m := New()
	m.Limit(l)
	return m
}

// Limit lowers the bounds of a machine, which has just been made or read from a snapshot.
func (m *Machine) Limit(l Limits) {
	lower := func(own *int, to int) {
		if to > 0 {
			*own = min(*own, to)
		}
	}
	lower(&m.limits.locks, l.Locks)
	lower(&m.limits.waiters, l.Waiters)
	lower(&m.limits.sessions, l.Sessions)
	lower(&m.limits.nodes, l.Nodes)
	lower(&m.limits.spans, l.Spans)
	lower(&m.limits.numbers, l.Spans)
	lower(&m.limits.step, l.Step)
	if l.ValueBytes > 0 {
		m.limits.values = min(m.limits.values, l.ValueBytes)
	}
}

// limits are the bounds of one machine; tests lower them.
type limits struct {
	locks, grants, waiters, holders int
	sessions, nodes, forgotten      int
	spans, spansTotal, numbers      int
	values                          int64
	keys, past, pastLocks, resizes  int
	quotas                          int
	token                           uint64
	step                            int // claims that one command takes away
	prune                           int // runs of finished numbers that one command forgets
}

func defaultLimits() limits {
	return limits{
		locks: LocksMax, grants: LocksMax, waiters: WaitersMax, holders: HoldersMax,
		sessions: SessionsMax, nodes: NodesMax, forgotten: ForgottenMax,
		spans: SpansMax, spansTotal: SpansTotalMax, numbers: NumbersMax,
		values: ValuesBytesMax, token: TokenMax, keys: KeysMax, past: PastMax, pastLocks: PastLocksMax, resizes: ResizesMax, quotas: QuotasMax, step: stepMax, prune: pruneMax,
	}
}
