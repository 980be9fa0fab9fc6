// Package proposer is the way to the group through this node's own replica (seam.Group): it waits
// for the group and its raft leader, repeats a command until its outcome is known, asks the
// replica's state, and tells a follower what the replica applies.
//
//	proposer.go   a command until its outcome is known, and the group that it goes to
//	admission.go  how many calls may be under way
//	ask.go        questions, which the replica's state answers
//	follow.go     what is applied, over all lives of the replica
//
// It starts no goroutine: callers propose from theirs, all methods are safe for concurrent use, and
// the end of a context or of the node ends every call. What follows an attempt, and how long the
// next one waits, is decided in internal/retry.
//
// The caller gives it each replica in turn: Start when proposals may go to it, Greet when the group
// has accepted this process, Retire before another replica of the same group takes its place,
// GiveUp before another group does; and Wake when the raft leader changes. It gives what a replica
// applies to Applied and Restored, in the order of the log. What must hold, besides what package
// seam asks for:
//
//	P1  a command that was meant for a group that is given up never goes to the next
//	P2  an error says whether an attempt may have been, or may still be, carried out; without an error there is an outcome
//	P3  at most CallsMax calls of a kind are under way, turnsMax wait, in the order of their arrival
//	P4  a call whose context has ended takes nobody's place
package proposer
