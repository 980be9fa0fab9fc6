// Package forming decides who forms the first group of a fleet, and which group a fresh node joins.
// It is passive: time, the view of the gossip and the messages are arguments; the caller keeps the
// vote on disk, sends the messages and carries out the action.
//
// The node with the lowest id among the fresh nodes that it sees is the candidate. It forms a group
// when it has the votes of as many others as make Bootstrap nodes together, and more than half of
// the fresh nodes that it sees. A node votes for one candidate at a time, durably, and is free
// again when the candidate releases it or has not been seen for AbsentAfter. What follows:
//
//	F1 a node's vote counts for one candidate and ballot at a time
//	F2 a ballot is used in one run of one process only, so that no restart can revive it: it contains
//	   the node's incarnation
//	F3 a group is formed by a candidate that sees no group, no lower fresh node, and has heard each of
//	   its votes within votesFresh
//	F4 of two candidates that see all fresh nodes one is refused, of two that see most of them nearly always: in a
//	   fleet far larger than Bootstrap, whose gossip is behind as all start at once, Bootstrap nodes can be found twice
//
// Votes make one group likely, not certain: a voter that its candidate left alone for AbsentAfter
// may help another to form a second group. What makes two groups harmless is another rule, kept by
// the caller: a node belongs to one group only, from before it starts a replica and for ever, and a
// group grants no lock before Bootstrap nodes have voted in it. So two groups can serve only if at
// least 2*Bootstrap node identities were made (a wiped disk makes a new one). With Bootstrap above
// half of the fleet, and disks that are not wiped meanwhile, there is one.
//
// The one exception: a group that nobody but its founder ever joined is given up for another of its
// name (Claim).
package forming

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// AbsentAfter is how long a candidate must be out of sight until its voters are free.
	AbsentAfter = 30 * time.Second

	askAgain   = time.Second      // a candidate asks again for a vote that it has not got
	repeat     = 3 * time.Second  // a voter repeats its vote, which also finds out that it was released
	votesFresh = 10 * time.Second // a vote heard longer ago may have gone to another candidate
	votesMax   = 127              // of others that are needed at most, unless Bootstrap says so: half of 256 nodes
	inboxMax   = 256              // messages kept for a Step; more are dropped
	unixMax    = 1<<32 - 1        // seconds: a clock beyond 2106 is wrong, and would eat up the tokens
	tokenBits  = 20               // a group's token counter starts at unix seconds << tokenBits
)

// Config is what does not change while the process runs.
type Config struct {
	Self        string // this node's id
	Incarnation uint64 // of this run: higher than in any earlier one with this id, below 1<<32
	Bootstrap   int    // how many fresh nodes form a group; below 1: only ever join
	Join        bool   // there are Join entries: others may be out there
}

// Peer is another node that gossip believes to be alive, of the same fleet.
type Peer struct {
	ID string
	// Fresh: it may take part in forming. It has never started a replica, and its own Bootstrap is
	// not below 1.
	Fresh bool
	// Cluster is the id of the group whose replica it has started, "" if it has not. That it only
	// means to join one is no proof that the group lives.
	Cluster string
	Alone   bool   // see Claim
	Birth   uint64 // see Claim
}

// Input is what the caller sees now.
type Input struct {
	Now       lease.Instant
	Unix      int64  // this node's wall clock, seconds
	Peers     []Peer // without this node itself
	JoinTried bool   // every Join entry was tried once since the process began
}

// Action is what to do.
type Action uint8

// Actions.
const (
	Wait Action = iota
	Form        // form a group of this node alone, under a new cluster id
	Join        // join the group Cluster
)

// Vote is a durable vote. The zero Vote is none.
type Vote struct {
	Candidate string
	Ballot    uint64
}

// Output is what to do now, in this order: save the vote if Save is set (durably, and do nothing
// else of this Output if that fails), send, act.
type Output struct {
	Save     bool
	Vote     Vote
	Send     []Message
	Action   Action
	Cluster  string   // to join
	Counter  uint64   // where the new group's token counter starts
	Conflict []string // cluster ids in sight that refuse each other, if there is more than one: somebody must be told loudly
	Reason   string   // for the log
	Next     lease.Instant
}

// Forming is one fresh node's part. It is used until the node has started a replica, which a node
// that joins does when the group has sent it a Welcome: until then Join binds nobody, and a group
// that goes out of sight before it took the node in is given up.
type Forming struct {
	cfg   Config
	inbox []Message
	last  uint64 // ballots of this incarnation

	vote    Vote
	seen    lease.Instant // when the vote's candidate was last seen
	repeats lease.Instant // when to repeat the vote

	ballot uint64                   // 0 unless this node is a candidate
	voters []string                 // whom it asks
	begun  map[string]lease.Instant // when it asked each for the first time
	asked  map[string]lease.Instant // … and for the last
	votes  map[string]heard
}

// heard is a vote that arrived.
type heard struct {
	at   lease.Instant
	unix int64
}

// New returns the state of a node that starts now with the vote it has on disk.
func New(cfg Config, vote Vote, now lease.Instant) *Forming {
	return &Forming{cfg: cfg, vote: vote, seen: now}
}

// Receive keeps a message for the next Step, which the caller should not put off.
func (f *Forming) Receive(m Message) {
	if m.To == f.cfg.Self && m.From != f.cfg.Self && len(f.inbox) < inboxMax {
		f.inbox = append(f.inbox, m)
	}
}

// Step decides. Call it at Next at the latest, and whenever the view or the inbox has changed.
func (f *Forming) Step(in Input) Output {
	o := Output{Vote: f.vote, Next: in.Now.Add(askAgain)}
	v := f.look(in)
	if f.ballot != 0 && (len(v.groups) > 0 || !f.mayLead(v) || !v.hasAll(f.voters)) {
		f.abandon(&o)
	}
	for _, m := range f.inbox {
		f.handle(m, in, v, &o)
	}
	f.inbox = nil
	f.keepVote(in, v, &o)
	switch {
	case len(v.groups) > 0:
		o.Action, o.Cluster, o.Reason = Join, v.groups[0].Cluster, "a group is in sight"
		o.Conflict = v.conflict()
	case f.cfg.Bootstrap < 1:
		o.Reason = "waits for a group to join"
	case f.cfg.Bootstrap == 1:
		f.single(in, v, &o)
	default:
		f.campaign(in, v, &o)
	}
	return o
}

// single forms a group at once; with Join entries only after they were tried, and if this node is
// the lowest of those that try.
func (f *Forming) single(in Input, v view, o *Output) {
	switch {
	case f.cfg.Join && !in.JoinTried:
		o.Reason = "tries the Join entries first"
	case f.cfg.Join && !f.mayLead(v):
		o.Reason = "leaves it to a node with a lower id"
	default:
		o.Action, o.Reason, o.Counter = Form, "no group in sight", f.counter(in)
	}
}

// campaign collects votes while this node is the one to do so.
func (f *Forming) campaign(in Input, v view, o *Output) {
	switch {
	case f.vote != Vote{}:
		o.Reason = "has voted for " + f.vote.Candidate
		return
	case !f.mayLead(v):
		o.Reason = "leaves it to a node with a lower id"
		return
	case len(v.fresh) < f.cfg.Bootstrap-1:
		o.Reason = "too few fresh nodes in sight"
		return
	case f.ballot == 0:
		f.last++
		f.ballot = f.cfg.Incarnation<<32 | f.last
		f.begun, f.asked, f.votes = make(map[string]lease.Instant), make(map[string]lease.Instant), make(map[string]heard)
	}
	missing := f.enlist(in.Now, v)
	for _, voter := range f.voters {
		got, ok := f.votes[voter]
		if ok && in.Now.Sub(got.at) < votesFresh {
			missing--
		}
		if ok && in.Now.Sub(got.at) < repeat {
			continue
		}
		if at, ok := f.asked[voter]; !ok || in.Now.Sub(at) >= askAgain {
			f.asked[voter] = in.Now
			o.send(Message{Kind: VoteRequest, From: f.cfg.Self, To: voter, Ballot: f.ballot})
		}
	}
	if missing > 0 {
		o.Reason = "asks for votes"
		return
	}
	o.Action, o.Reason, o.Counter = Form, "has all votes", f.counter(in)
}

// enlist asks further nodes where more votes are needed than before, or a voter has had its time:
// it hangs, or has voted for another. It returns how many votes are needed.
func (f *Forming) enlist(now lease.Instant, v view) int {
	need := max(f.cfg.Bootstrap-1, min((len(v.fresh)+1)/2, votesMax))
	ask := need
	for _, voter := range f.voters {
		if _, voted := f.votes[voter]; !voted && now.Sub(f.begun[voter]) >= repeat {
			ask++
		}
	}
	for _, id := range v.fresh {
		if _, asked := f.begun[id]; len(f.voters) < ask && !asked {
			f.begun[id] = now
			f.voters = append(f.voters, id)
		}
	}
	return need
}

// abandon gives up the candidacy for good: its ballot is never used again.
func (f *Forming) abandon(o *Output) {
	for _, voter := range f.voters {
		o.send(Message{Kind: Release, From: f.cfg.Self, To: voter, Ballot: f.ballot})
	}
	f.ballot, f.voters, f.begun, f.asked, f.votes = 0, nil, nil, nil, nil
}

// mayLead reports whether no fresh node with a lower id is in sight.
func (f *Forming) mayLead(v view) bool { return len(v.fresh) == 0 || f.cfg.Self < v.fresh[0] }

// counter is where the group's tokens start: at the latest clock of those that found it.
func (f *Forming) counter(in Input) uint64 {
	unix := in.Unix
	for _, got := range f.votes {
		unix = max(unix, got.unix)
	}
	return uint64(min(max(unix, 0), unixMax)) << tokenBits
}

func (o *Output) send(m Message) { o.Send = append(o.Send, m) }

func (o *Output) save(v Vote) { o.Vote, o.Save = v, true }
