// Package session is a node's side of its sessions with the group: the leases and waiting calls
// that live and end together, until when their holders may rely on them, when they are renewed, and
// what the group has still to be told. It is passive: it starts no goroutine and has no clock. Time
// is an argument, and what is to be done comes back as a value. Holdfast runs it with goroutines
// and the real clock (keeper.go in the root), sim/internal/model with neither.
//
//	table.go     all sessions of this process; those that are asked for, opened, ended
//	session.go   one of them: its requests and its claims
//	validity.go  until when it may be relied on
//	call.go      a request from its number to a grant, a place in the queue or a refusal
//	grant.go     a grant in its holder's hands, its end and its release
//	renew.go     what is due by the clock: keepalives, warnings, losses
//	news.go      what the local replica has applied, as events or as a whole state
//	debts.go     what the group has still to be told: releases, withdrawals, closed sessions
//	check.go     the invariants K1 to K8
//
// # How to run it
//
// Create a Table, tell it with Identify which process it is for, and then:
//
//   - Ask for a call, propose its Acquire, and give the outcome to Call.Answered, which says how to
//     go on.
//   - Give every event of the local replica to Note, and call Restore where events were missed, in
//     the order of the log.
//   - Call Step at the time that the last one named, or when Urgent says so, and propose its
//     keepalives.
//   - While Owes says so, take a Debt and propose its commands, each until its outcome is known.
//
// After every call of a method look at Urgent and Owes: that is how the Table asks for something.
// All methods are safe for concurrent use. now is read from the node's clock before the call; an
// older one is never wrong, only stricter or later. Holders are told of their end under no lock; a
// Waiter and Holder.Wanted are called under the session's lock and must not call back. What is done
// to many is done in the order of their numbers, so that a run can be repeated.
//
// # What must hold
//
// Table.Check looks at these, between two calls of a Table that one goroutine uses:
//
//	K1  a session is valid from its opening to its end alone: never before, and never again
//	K2  no holder relies on a session for longer than the plan says, which counts from before a command was sent that the
//	    group is known to have carried out, and from before every later one that may shorten its TTL
//	K3  nothing hangs on a session that is over: its holders were ended and its waiters told
//	K4  a call that waits has an open request number, so the group does not forget what became of it
//	K5  a new call is never given a session that is over or manually renewed by another
//	K6  the group will hear of the end of every session that it may have, unless it has told of that end itself
//	K7  the session numbers in use are those of the sessions that the Table has
//	K8  a session stands in line for its debts once, and only with debts
package session
