// Package session is a node's side of its sessions with the group: the leases and waiting calls
// that live and end together, their validity, their renewal, and the node's debts: what it still
// has to propose. The package is passive: it starts no goroutine and has no clock. Time is an
// argument, and work comes back as a value. Holdfast runs it with goroutines and the real clock
// (keeper.go in the root), sim/internal/model with neither.
//
//	table.go     all sessions of this process; those that are asked for, opened, ended
//	session.go   one of them: its requests and its claims
//	validity.go  the end of its validity
//	call.go      a request from its number to a grant, a place in the queue or a refusal
//	grant.go     a holder's grant, its end and its release
//	renew.go     what is due by the clock: keepalives, warnings, losses
//	news.go      what the local replica has applied, as events or as a restored state
//	debts.go     what the node still has to propose: releases, withdrawals, closed sessions
//	errors.go    why a lease ended
//	check.go     the invariants K1 to K8
//
// # How to run it
//
// Create a Table, name its process with Identify, and then:
//
//   - Ask for a call, propose its Acquire, and pass the outcome to Call.Answered, which returns the
//     next step.
//   - Pass every event of the local replica to Note, in the order of the log, and call Restore where
//     events were missed.
//   - Call Step at the time that the last Step returned, or when Urgent fires, and propose its
//     keepalives.
//   - While Owes returns true, take a Debt and propose its commands, each until its outcome is known.
//
// Check Urgent and Owes after every call of a method: through them the Table asks for work. All
// methods are safe for concurrent use. now is read from the node's clock before the call; an older
// one is never wrong, only stricter or later. Holder.Ended is called under no lock. Waiter and
// Holder.Wanted are called under the session's lock and must not call back. Grants and waiters are
// ended in the order of their numbers, so that a run can be repeated.
//
// # What must hold
//
// Table.Check looks at these, between two calls of a Table that one goroutine uses:
//
//	K1  a session is valid from its opening to its end alone: never before, and never again
//	K2  no holder relies on a session for longer than the plan says, which counts from before a command was sent that the
//	    group is known to have carried out, and from before every later one that may shorten its TTL
//	K3  a session that is over has no grant and no waiter: each of them has learnt of the end
//	K4  a call that waits has an open request number, so the group does not forget its outcome
//	K5  a new call is never given a session that is over or manually renewed by another
//	K6  the node proposes the end of every session that the group may have, unless the group has ended it
//	K7  the session numbers in use are those of the sessions that the Table has
//	K8  a session is in the queue of debts once, and only with debts
package session
