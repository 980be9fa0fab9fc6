// Package autopilot plans the next change to the group's membership: which nodes follow, vote and
// are removed. Next is a function of what the raft leader knows, and Leader is that knowledge: which
// replicas Raft heard and when, the records of their nodes in the group's state, and gossip.
// The raft leader carries out at most one step, and asks again with fresh inputs. The package does
// nothing by itself, and time is an argument: internal/node runs it, and so does
// sim/internal/model.
//
// The rules, which plan.go refers to by number:
//
//	P1  No step while the outcome of the last one is unknown: a barrier first. None before the raft leader has listened
//	    for a moment in its term, and none unless it hears a majority of the voters.
//	P2  A standby is promoted only if the voters heard are a quorum of one more voter, the newcomer counted dead. A
//	    group of one has to pass through two voters: only with two ready standbys, so that it goes on to three at once,
//	    or if that one voter leaves.
//	P3  A voter is removed only if it leaves, has gone for good, or was not heard for ReplaceAfter, and only if the
//	    voters heard that remain are a quorum of all that remain. They must have been heard since the last change: of many
//	    steps within a moment each would else count on the same old news. They must also have been heard since a member
//	    said last that it leaves: one that had died just before would else count for it.
//	P4  One that was not heard, and may come back, is removed only for something: a standby that is ready takes its
//	    place, or the living bear more deaths without it, or enough others vote, or it keeps others from leaving, or its own
//	    node, in whose way it is, asks to come in as another replica. It goes before a standby takes its place, where there
//	    are standbys enough.
//	P5  A leaving voter is replaced before it is removed, if a standby is ready, or comes while all voters are heard.
//	    Any number leaves at once, one by one.
//	    If all members leave, none is removed: they keep their data and form the same group when restarted. A standby
//	    neither heard for ReplaceAfter nor seen does not count among the members that stay.
//	P6  The raft leader never removes itself. It hands over to a voter that stays and that it hears.
//	P7  Gossip brings candidates, and keeps a silent standby. It neither removes nor keeps a voter.
//	P8  A step names the membership and the term that it was decided on, and is void under any other.
//	P9  Voters are spread over zones, then over hosts, then over nodes with disks. Where no voter is to be replaced, a
//	    newcomer that would crowd a zone or a host waits for one of another that is on its way. A group that does not serve
//	    yet first takes in all that it waits for, and then chooses; where it gives replicas to some of those alone, the
//	    last ones wait as long for nodes of zones and hosts that have none. Standbys are spread alike, over the zones and
//	    hosts of all replicas.
//	P10 Without further deaths the plan comes to rest: nothing that a step does is undone by a later one.
//	P11 An operator's order removes a replica that is not heard, at once and whatever for, but not past P1, P3's quorums and
//	    P6. One that is heard is not removed by order, nor the last voter: Leader.Refusal says so.
//	P12 A voter that is heard without progress counts as not heard. One of those is given up only when the membership has
//	    not changed for ReplaceAfter: what ails many at once is likely to be the raft leader's own.
//	P13 A voter whose host was wiped counts as not heard for ReplaceAfter as soon as it was not heard for Patience and
//	    its heir is ready: the node whose process answers at its address, under its name, and that asked to come in
//	    when the group did not know it. No process of the voter's own node is in sight elsewhere. Where the heir is a
//	    client that the group has greeted, any standby that is ready will do.
//	P14 Want and Standbys together are how many replicas follow. One that was not heard for ReplaceAfter is none of them:
//	    a candidate makes up for it. A candidate that can do nothing without a replica is given one however many
//	    follow, before all others. Where too many follow, and every voter stays and is heard and they are as many
//	    as wanted, one standby is removed that is heard and whose node works as a client without it: one of the most
//	    crowded zone, then host, and there rather one that could not vote now. One that could waits until all others can,
//	    also those that are not heard. A standby that never was is counted with its zone and host however long it is
//	    silent: clients that the raft leader cannot reach would else be given one place after another.
//	    Where as many follow as shall, all of them are well and all vote that shall, a candidate is added whose zone, or
//	    then host, has fewer replicas even with it than those of such a standby, which then goes.
//	P15 A node that works as a client and says in gossip that its disk bears no replica is given none. A standby of
//	    such a node is removed when it is not heard for a moment, though gossip sees its node: another takes its place.
//
// What follows from them, explored by small_test.go: deaths of any number at any step, as long as a
// majority of the current voters lives, lose no group, not even if the newcomer dies as it is
// promoted. A voter that is cut off counts as dead. Four things no order of single changes can avoid, each
// within the moment before a change and the time until its commit: the newcomer dies and so does a
// voter that was counted on; a voter dies while another is let go that leaves and has no successor;
// a voter dies while another is removed that was silent for ReplaceAfter and comes back just then,
// one too late; a group of one, on its way to three, loses either of two.
//
// Decisions. A fleet of two with more voters wanted stays one voter and one standby: two voters
// bear no death either, and there are two to die. Voters in excess of Want that are well stay: to
// remove one costs a node its replica, and the group bears no more without it. Two voters that a
// leave left behind stay two for the same reason. A zone is a reason to choose, and to exchange a
// standby: never to move a voter. The next voter that dies is replaced from the zone that lacks one.
package autopilot

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Defaults of Input.
const (
	ReplaceAfterDefault = 30 * time.Second
	MomentDefault       = time.Second
)

const (
	// forgetFactor is after how many times ReplaceAfter a silent standby is removed. It costs
	// little, and a removed replica never comes back, so the patience is long.
	forgetFactor = 10
	// behindMax is how many entries a standby may lag behind to be promoted: less than a moment's
	// work.
	behindMax = 1000
	// domainPatience is the time for which a standby that is ready, or a candidate, waits for one of
	// another zone or host: newcomers differ by less in their start.
	domainPatience = 3 * time.Second
	// startPatience is the time for which voters that leave wait for a standby that was not heard yet:
	// many times what the start of a replica takes.
	startPatience = 10 * time.Second
)

// Role is what a node does in the group.
type Role uint8

// Roles.
const (
	Candidate Role = iota // has no replica and wants one
	Standby               // its replica follows
	Voter                 // its replica votes
)

// Member is a node as the raft leader knows it. Durations are since something happened, and may
// only be too short.
type Member struct {
	Node      string
	Zone      string // failure domain: "zone" or "zone/host", "" if unknown
	Role      Role
	Departure fsm.Departure
	Disk      bool          // it comes back as the same node
	Running   bool          // it has caught up once: the group has carried out its Hello
	Behind    uint64        // entries that its replica lags behind
	Age       time.Duration // for how long its replica has run and been heard without a break; for how long a candidate has asked
	Heard     time.Duration // since a raft leader, this one or a former one, heard its replica through Raft
	Seen      time.Duration // since gossip saw it
	Stuck     bool          // its replica is heard, and has made no progress for about the time of Heard while others have
	Ordered   string        // the words of an operator who has ordered its removal, "" for none
	Heir      string        // the node that has its host now, "" for none: P13
	Succeeded bool          // its node says in gossip that this replica is over, and asks to come in as another one
	Able      bool          // gossip sees its node, which can do without a replica: it works as a client meanwhile
	Unfit     bool          // its node says in gossip that its disk does not bear this replica now: P15
}

// Input is all that Next goes by. The order of Members does not matter.
type Input struct {
	Self         string // the raft leader: the node that asks. It hears itself
	Members      []Member
	Index        uint64        // of the last change to the membership, as applied by the raft leader
	Term         uint64        // of Raft, in which it is raft leader
	Unknown      bool          // the outcome of the last change is unknown, or this raft leader has passed no barrier yet
	Listening    time.Duration // for how long this raft leader has been raft leader without a pause of its process
	Want         int           // how many shall vote: 1, 3, 5 or 7
	Standbys     int           // how many shall follow besides: P14; 0: every candidate
	StableAfter  time.Duration // a standby must be of this Age to be promoted
	ReplaceAfter time.Duration // a voter not heard for so long is replaced; 0: ReplaceAfterDefault
	Patience     time.Duration // after which a voter not heard may have an heir; at least Moment
	Moment       time.Duration // a replica heard within it lives; a few heartbeats; 0: MomentDefault
	Expected     int           // replicas that a group which does not serve yet waits for before it chooses voters; 0: none
	Meeting      int           // nodes that are to meet in that group, with a replica or without: its Bootstrap
	Changed      time.Duration // since the membership was changed last, or a member said that it leaves; 0: long ago
}

// Kind is what to do.
type Kind uint8

// Kinds of a step.
const (
	None       Kind = iota // the membership is as wanted
	Wait                   // it is not, and nothing is safe or possible now: Reason says what is waited for
	Barrier                // pass a barrier, then read the membership again
	HandOver               // transfer raft leadership to Node
	AddStandby             // give a candidate a replica that follows
	Promote                // make a standby a voter
	Remove                 // remove a voter or a standby for good
)

// String is the kind in words.
func (k Kind) String() string {
	names := [...]string{"none", "wait", "barrier", "hand over", "add standby", "promote", "remove"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Plan is the next step, or what it waits for.
type Plan struct {
	Kind   Kind
	Node   string // that the step is about
	Reason string // why, in words for an operator
	Index  uint64 // the membership that it was decided on: it must be carried out under this index only
	Term   uint64 // in which it was decided: it must be carried out in this term only
	Full   bool   // as many replicas follow as shall
	Bears  int    // how many of the voters heard may die before the group has no majority; -1: it has none
}
