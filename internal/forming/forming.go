// Package forming decides which node forms the first group of a fleet, and which group a fresh node
// joins. It is passive: time, the view of the gossip and the messages are arguments; the caller
// saves the vote on disk, sends the messages and performs the action.
//
// The candidate is the node with the lowest id among the fresh nodes that it sees. It forms a group
// with the votes of Bootstrap nodes, itself included, and of more than half of the fresh nodes that
// it sees. A node votes for one candidate at a time, durably, and is free again when the candidate
// releases it or has been out of sight for AbsentAfter. What follows:
//
//	F1 a node's vote counts for one candidate and ballot at a time
//	F2 a ballot belongs to one process, so that no restart can revive it: it contains the node's incarnation
//	F3 a candidate forms a group only if it sees no group and no lower fresh node, and has received
//	   each of its votes within votesFresh
//	F4 of two candidates that see all fresh nodes one is refused, and nearly always of two that see most of them: in a
//	   fleet far larger than Bootstrap that starts at once, two candidates can find Bootstrap nodes each
//
// Votes make one group likely, not certain: a voter whose candidate was out of sight for
// AbsentAfter may vote for a second group. Another rule of the caller makes two groups harmless: a
// node belongs to one group only, from before it starts a replica and forever, and a group grants
// no lock before Bootstrap nodes have voted in it. So two groups can serve only if at least
// 2*Bootstrap node identities were made (a wiped disk makes a new one). With Bootstrap above half
// of the fleet, and no wiped disks, there is one group.
//
// The one exception: a group that only its founder ever joined yields to another of its name
// (Claim).
package forming

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// AbsentAfter is the time after which the voters of a candidate out of sight are free.
	AbsentAfter = 30 * time.Second

	askAgain   = time.Second      // a candidate repeats its request
	askSoon    = askAgain / 10    // and at first: the voter may not know the candidate's address yet, or have voted for one that gives up
	repeat     = 3 * time.Second  // a voter repeats its vote, and so learns of a lost release
	votesFresh = 10 * time.Second // after this time a voter may have voted for another candidate
	votesMax   = 127              // upper bound of the votes needed beyond Bootstrap: half of 256 nodes
	inboxMax   = 256              // messages kept for a Step; more are dropped
	unixMax    = 1<<32 - 1        // seconds: a clock beyond 2106 is wrong, and would use up the tokens
)

// Config is constant while the process runs.
type Config struct {
	Self        string // this node's id
	Incarnation uint64 // of this process: above all earlier ones of this id, below 1<<32
	Bootstrap   int    // fresh nodes that form a group; below 1: this node only joins
	Join        bool   // Join is configured: other nodes may exist
}

// Peer is another node of the fleet that gossip sees alive.
type Peer struct {
	ID string
	// Fresh reports whether the node may take part in forming: it has never started a replica, and
	// its own Bootstrap is not below 1.
	Fresh bool
	// Cluster is the id of the group whose replica it has started, or "". Its intention to join a
	// group does not prove that the group lives.
	Cluster string
	Alone   bool   // see Claim
	Birth   uint64 // see Claim
}

// Input is the caller's present view.
type Input struct {
	Now       lease.Instant
	Unix      int64  // this node's wall clock, seconds
	Peers     []Peer // without this node itself
	JoinTried bool   // every Join entry was tried since the start of the process, and what answers there lets this node in
}

// Action is the caller's next action.
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

// Output is the caller's work, in this order: save the vote durably if Save is set (after a failure
// it ends here), send, act.
type Output struct {
	Save    bool
	Vote    Vote
	Send    []Message
	Action  Action
	Cluster string // to join
	Counter uint64 // first token of the new group
	Next    lease.Instant
}

// Forming is one fresh node's part. Its use ends when the node has started a replica; a joining
// node does so after a Welcome. Until then Join does not bind the node: it gives up a group that
// went out of sight before the Welcome.
type Forming struct {
	cfg   Config
	inbox []Message
	last  uint64 // ballot of this incarnation

	vote    Vote
	seen    lease.Instant // the last sight of the vote's candidate
	repeats lease.Instant // the next repetition of the vote

	ballot uint64                   // 0 unless this node is a candidate
	voters []string                 // nodes that it asks
	begun  map[string]lease.Instant // first request to each; long before it after a refusal, so that another voter is asked, too
	asked  map[string]lease.Instant // last request to each
	votes  map[string]heard
}

// heard is a vote that a candidate received.
type heard struct {
	at   lease.Instant
	unix int64
}

// New returns the state of a starting node with its vote on disk.
func New(cfg Config, vote Vote, now lease.Instant) *Forming {
	return &Forming{cfg: cfg, vote: vote, seen: now}
}

// Receive keeps a message for the next Step, which should follow soon.
func (f *Forming) Receive(m Message) {
	if m.To == f.cfg.Self && m.From != f.cfg.Self && len(f.inbox) < inboxMax {
		f.inbox = append(f.inbox, m)
	}
}

// Step decides. The caller calls it at Next at the latest, and after each change of the view or the
// inbox.
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
		o.Action, o.Cluster = Join, v.groups[0].Cluster
	case f.cfg.Bootstrap == 1:
		f.single(in, v, &o)
	case f.cfg.Bootstrap > 1:
		f.campaign(in, v, &o)
	}
	return o
}

// single forms a group at once; with Join entries only after they were tried, and if this node has
// the lowest id.
func (f *Forming) single(in Input, v view, o *Output) {
	if !f.cfg.Join || in.JoinTried && f.mayLead(v) {
		o.Action, o.Counter = Form, f.counter(in)
	}
}

// campaign collects votes while this node is the candidate.
func (f *Forming) campaign(in Input, v view, o *Output) {
	if (f.vote != Vote{}) || !f.mayLead(v) || len(v.fresh) < f.cfg.Bootstrap-1 {
		return
	}
	if f.ballot == 0 {
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
		if _, ok := f.asked[voter]; !ok || in.Now >= f.askNext(voter) {
			f.asked[voter] = in.Now
			o.send(Message{Kind: VoteRequest, From: f.cfg.Self, To: voter, Ballot: f.ballot})
		}
		o.Next = min(o.Next, f.askNext(voter))
	}
	if missing <= 0 {
		o.Action, o.Counter = Form, f.counter(in)
	}
}

// enlist adds voters if more votes are needed than before, or if a voter does not answer. It
// returns the count of votes needed.
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

// askNext is when a voter that does not answer is asked again: the pauses double.
func (f *Forming) askNext(voter string) lease.Instant {
	at := f.asked[voter]
	return at.Add(min(max(at.Sub(f.begun[voter]), askSoon), askAgain))
}

// refused notes a refusal: the voter is asked again soon, and another one instead of it now.
func (f *Forming) refused(voter string, now lease.Instant) {
	f.begun[voter] = now.Add(-repeat)
	f.asked[voter] = now.Add(askSoon - askAgain)
}

// abandon ends the candidacy; its ballot is never used again.
func (f *Forming) abandon(o *Output) {
	for _, voter := range f.voters {
		o.send(Message{Kind: Release, From: f.cfg.Self, To: voter, Ballot: f.ballot})
	}
	f.ballot, f.voters, f.begun, f.asked, f.votes = 0, nil, nil, nil, nil
}

// mayLead reports whether no fresh node with a lower id is in sight.
func (f *Forming) mayLead(v view) bool { return len(v.fresh) == 0 || f.cfg.Self < v.fresh[0] }

// counter is the group's first token: the latest clock of its founders.
func (f *Forming) counter(in Input) uint64 {
	unix := in.Unix
	for _, got := range f.votes {
		unix = max(unix, got.unix)
	}
	return uint64(min(max(unix, 0), unixMax)) << fsm.TokenBits
}

func (o *Output) send(m Message) { o.Send = append(o.Send, m) }
