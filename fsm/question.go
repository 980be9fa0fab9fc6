package fsm

// Question is a question to a state. It is a value, as a command is, so that a wire can carry it.
// Machine.Answer answers it.
type Question interface {
	encodable
	answer(m *Machine) Answer
}

// Answer is the value that answers a Question.
type Answer interface {
	encodable
	// State is the number of the last command in the state that was asked.
	State() uint64
}

// Asks is a Question whose answer is an A.
type Asks[A Answer] interface {
	Question
	// Read returns the answer to this kind of question; false if it is one to another kind.
	Read(a Answer) (A, bool)
}

// QueryGroup asks for the state in numbers.
type QueryGroup struct{}

// QueryName asks for what is known of one name in short. With a Token it asks for that grant, too.
// The answer costs the same beside ten thousand waiters.
type QueryName struct {
	Name  string // of a lock, or OnceName of a key
	Token uint64
}

// QueryLocks asks for locks with all their holders. Its answers are pages: LocksPage.Next asks the
// same state for the next one.
type QueryLocks struct {
	Name  string
	Exact bool     // the lock of this name, in use or not; else those whose names begin with it, without Once keys
	Parts Parts    // what the answer has beside the holders, values and rests
	After Bookmark // where the page before ended
}

// Bookmark is a place in the list of locks: behind a lock, one of its holders or one of its
// waiters.
type Bookmark struct {
	Lock     string // "": before the first lock
	Within   bool   // not behind the whole lock, but behind
	Token    uint64 // the holder with this token or,
	Priority int32  // where that is 0, the waiter of this priority
	Arrived  uint64 // that came with this command
}

// Parts are what LocksPage has of each lock beside its holders, value and rests.
type Parts uint8

const (
	PartWaiters  Parts = 1 << iota // LockState.Waiters
	PartPast                       // LockState.Past
	PartSessions                   // LockState.Sessions
	PartCycles                     // LockState.Cycles: a search, for which commands should not wait
)

// QueryClaims asks what the group has of requests of a process and of their sessions: for a node
// that has missed events.
type QueryClaims struct {
	Process  Process
	Sessions []SessionClaims
}

// QueryClaimsMax is how many sessions and requests a QueryClaims should ask about, all together.
const QueryClaimsMax = 1024

// SessionClaims is a session and those of its requests that a QueryClaims asks about.
type SessionClaims struct {
	Number uint64
	Claims []ClaimQuery
}

// ClaimQuery is a request that a QueryClaims asks about, with its grant if the node has that.
type ClaimQuery struct {
	Request uint64
	Grant   Grant
}

// Long reports whether the answer may take so long that commands should not wait for it: ask a
// Fork.
func (q QueryLocks) Long() bool { return !q.Exact || q.Parts&PartCycles != 0 }
