package fsm

import "time"

// Command is one entry of the log, or one of those in a Batch. Encode writes it, Decode reads it,
// Machine.Apply carries it out.
type Command interface {
	about() (op, Process) // which operation it is, and whose process's sessions it is about: see ProcessOf
}

// ProcessOf is the process whose sessions a command is about: it alone may propose it. Zero for
// commands that are about the group, about time, an operator's, or a client's (Via), which any
// replica may propose.
func ProcessOf(c Command) Process {
	_, process := c.about()
	return process
}

// Birth is the first command of a group: its id, where its token counter starts, and which replicas
// it must have before a Serve is proposed: Bootstrap in all, Voters of them with a vote.
// CodeInvalid for more voters than replicas. A later Birth changes nothing: CodeOK for the same
// cluster, else CodeInvalid.
type Birth struct {
	Cluster   [16]byte
	Counter   uint64
	Bootstrap uint32
	Voters    uint32
}

// Serve says that the group has the replicas of its Birth, which the machine cannot know. Before it
// Acquire and SetValue are answered CodeNotServing. CodeInvalid before Birth.
type Serve struct{}

// Level raises the feature level of the group: see level.go. It never falls: a lower level changes
// nothing. CodeTooOld while a process that is here, or has sessions, does not know the level.
type Level struct{ Level uint64 }

// Place is where a process runs: the boot of a kernel, and the lock file that the process has
// locked there. Two processes with the same place cannot live at once.
type Place struct {
	Boot   string // unique to a boot of a machine, BootBytesMax at most; "": unknown, which proves nothing
	Device uint64 // of the file system of the lock file
	File   uint64 // the number of the lock file on it
}

// proves reports whether a process at p is proof that the one at former is dead.
func (p Place) proves(former Place) bool { return p.Boot != "" && p == former }

// Hello says that a process of a node has begun, and makes the record of the process. Grants of
// earlier processes of the node end at once if Place proves that these are dead, and else with
// their TTL. Waiters of earlier processes are withdrawn, and these processes neither acquire nor
// renew any more. An older incarnation, one that said Goodbye, or any of a node that is Gone is
// answered CodeStaleIncarnation, and a process that does not know the level of the group CodeTooOld.
// The name of an incarnation never changes.
type Hello struct {
	Node        Node
	Incarnation uint64
	Name        string
	Place       Place
	Level       uint64 // highest that the process knows; 0: 1
}

// Goodbye says that a process has ended its leases and stops: its sessions end. The process cannot
// return, and no later process of a node that is Gone can. A later Goodbye of the same process may
// raise the departure. CodeStaleIncarnation when a newer process is there.
type Goodbye struct {
	Node        Node
	Incarnation uint64
	Departure   Departure
}

// Remove says that the node of a process has no replica in the group. That is no proof that the
// process is dead: its grants stay until their TTL, and its record until then; its waiters are
// withdrawn. The process is here again when it opens a session. Since is that of its record.
// CodeFinished if there is no such record, or the process has gone or come back since then.
type Remove struct {
	Node        Node
	Incarnation uint64
	Since       uint64
}

// Revoke ends, by order of an operator, all sessions of a node that were opened up to a command, by
// its number. CodeInvalid without a reason.
type Revoke struct {
	Node   Node
	Upto   uint64
	Reason string
}

// Acquire asks for a lock. With a TTL it opens its session if the number was never used; it never
// re-opens a session that ended (CodeSessionLost). A session that does not exist and comes without
// a TTL is answered CodeSessionLost, and then cannot be opened any more.
//
// Answers: CodeGranted, CodeQueued (Wait), CodeHeld (not Wait), a refusal, or CodeFinished when the
// request is over. A duplicate is answered by the present state of its request, and changes
// nothing. A refused request is over, except where Code.Left says RequestUnknown: it may be repeated
// under the same number. CodeInvalid also for a number that is live for another lock.
type Acquire struct {
	Session SessionID
	TTL     time.Duration // whole milliseconds
	Request uint64        // counted by the session from 1
	Acked   uint64        // the client has heard the answer to every lower number
	Name    string
	Wait    bool
	Terms
	HasValue bool // set the lock's value at the grant; nil removes it
	Value    []byte
	Others   []string // further names of a set, which is granted as a whole under one token. Not for Permit
	While    []uint64 // tokens that the caller holds and does not let go while it waits, the innermost first
	Refuse   bool     // answer CodeDeadlock instead of waiting in a cycle
}

// Withdraw ends requests: a waiter leaves the queue, a grant is released, a request not seen yet
// will do nothing when it comes. If the session was never opened, it cannot be opened afterwards
// and the answer is CodeSessionLost, as it is when the session has ended. CodeTooManyRequests: a
// request not seen yet could not be remembered; the others are withdrawn.
type Withdraw struct {
	Session  SessionID
	Acked    uint64
	Requests []uint64
}

// Grant names a grant by its lock and token.
type Grant struct {
	Name  string
	Token uint64
}

// Release frees grants of a session by their tokens. CodeOK if all were current; else CodeNotHeld,
// and the current ones are released. With a Rest, whole milliseconds, their places stay taken until
// EndRest. One name of a set stands for the whole set. With Close the session ends, too, if it is
// open, whatever the answer: as after CloseSession, and the answer says whether the grant was still
// current.
type Release struct {
	Session SessionID
	Acked   uint64
	Grants  []Grant
	Rest    time.Duration
	Close   bool
}

// SetValue writes the value of a lock that the session holds under this token; a nil Value deletes
// it. CodeStaleToken when the session does not hold the lock. A request number that was carried
// out, or withdrawn, is answered CodeFinished afterwards, and no other is: a caller that missed the
// first answer, and withdrew nothing, has written.
type SetValue struct {
	Session SessionID
	Request uint64 // counted together with those of Acquire
	Acked   uint64
	Name    string
	Token   uint64
	Value   []byte
}

// Keep renews sessions of a node: each that exists and has not seen this or a later Seq. Lost in
// the outcome lists the sessions that do not exist; they never will. Lowest is the lowest session
// number that the node still uses: lower ones are not remembered one by one. With a TTL, whole
// milliseconds, there is one session, and it has that TTL from then on; CodeFinished, and nothing
// has changed, if the session has seen a later Seq.
type Keep struct {
	Node        Node
	Incarnation uint64
	Seq         uint64 // counted by the incarnation from 1
	Lowest      uint64
	Sessions    []uint64
	TTL         time.Duration
}

// CloseSession ends a session now: its grants are released. A number that was never opened cannot
// be opened afterwards. CodeOK also when the session has ended before. Lost says that the client
// did not mean to release.
type CloseSession struct {
	Session SessionID
	Lost    bool
}

// Expire ends a session if Renewed is still the number of its last renewal. CodeFinished when it
// was renewed since, CodeSessionLost when it has ended.
type Expire struct {
	Session SessionID
	Renewed uint64
}

// ForceRelease takes a grant from its holder. CodeStaleToken when the token is no current grant of
// the lock, CodeInvalid without a reason.
type ForceRelease struct {
	Name   string
	Token  uint64
	Reason string
}

// Finish ends the run of a Once key for good: its grant ends, the key is remembered for at least
// Keep (whole milliseconds) and its waiters are withdrawn. CodeNotHeld when the token is no current
// grant; CodeOK when it is the token of the remembered run. Acquire then answers CodeDone.
type Finish struct {
	Session SessionID
	Acked   uint64
	Name    string // see OnceName
	Token   uint64
	Keep    time.Duration
}

// Turn says that at least OncePeriod(Keep) went by on some replica since it applied the turn that
// is command Last, of the keys that are remembered for Keep. CodeFinished when that was not their
// last turn.
type Turn struct {
	Keep time.Duration
	Last uint64
}

// Sweep forgets keys remembered for Keep whose time is over, those that were finished up to the
// command Upto and at most SweepMax. Keys whose time is not over stay, whatever Upto says.
type Sweep struct {
	Keep time.Duration
	Upto uint64
}

// EndRest says that the time of a rest is over on some replica: the place may be taken again.
// CodeFinished when there is no such rest.
type EndRest struct {
	Name  string
	Token uint64
}

func (Birth) about() (op, Process)          { return opBirth, Process{} }
func (Serve) about() (op, Process)          { return opServe, Process{} }
func (Level) about() (op, Process)          { return opLevel, Process{} }
func (c Hello) about() (op, Process)        { return opHello, Process{c.Node, c.Incarnation} }
func (c Goodbye) about() (op, Process)      { return opGoodbye, Process{c.Node, c.Incarnation} }
func (Remove) about() (op, Process)         { return opRemove, Process{} }
func (Revoke) about() (op, Process)         { return opRevoke, Process{} }
func (c Acquire) about() (op, Process)      { return opAcquire, c.Session.Process() }
func (c Withdraw) about() (op, Process)     { return opWithdraw, c.Session.Process() }
func (c Release) about() (op, Process)      { return opRelease, c.Session.Process() }
func (c SetValue) about() (op, Process)     { return opSetValue, c.Session.Process() }
func (c Keep) about() (op, Process)         { return opKeep, Process{c.Node, c.Incarnation} }
func (c CloseSession) about() (op, Process) { return opCloseSession, c.Session.Process() }
func (Expire) about() (op, Process)         { return opExpire, Process{} }
func (ForceRelease) about() (op, Process)   { return opForceRelease, Process{} }
func (c Finish) about() (op, Process)       { return opFinish, c.Session.Process() }
func (Turn) about() (op, Process)           { return opTurn, Process{} }
func (Sweep) about() (op, Process)          { return opSweep, Process{} }
func (EndRest) about() (op, Process)        { return opEndRest, Process{} }
func (Raise) about() (op, Process)          { return opRaise, Process{} }
func (Silent) about() (op, Process)         { return opSilent, Process{} }
func (Continue) about() (op, Process)       { return opContinue, Process{} }
func (Forget) about() (op, Process)         { return opForget, Process{} }
func (Ask) about() (op, Process)            { return opAsk, Process{} }
func (RaiseTTL) about() (op, Process)       { return opRaiseTTL, Process{} }
func (Evict) about() (op, Process)          { return opEvict, Process{} }
