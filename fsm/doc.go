// Package fsm carries no promise of compatibility: it is public to be read and checked, and
// programs use package holdfast. The machine is the replicated state of Holdfast: the holders and
// waiters of each lock, and the sessions that they belong to. It is a pure function of the log: the
// same commands at the same indexes make the same state, the same outcomes, the same events and the
// same snapshot bytes on every replica.
//
// It has no clock, goroutine, mutex, randomness or network. Time never enters: a session has
// expired when a replica says so by an Expire command that names the renewal it timed, and the
// command is void when the session was renewed since. The shell around a [Machine] (package
// internal/consensus) owns the locking, the timing and the disk.
//
// Every command may be applied late, twice, or both, because a proposal that timed out may still be
// in the log. Each therefore carries identifiers of its own (session, request number, token, number
// of the renewal) that make the second application change nothing.
//
// No command takes long. When a node with a million locks ends, its sessions end at once for their
// clients, and their claims are taken away in steps between which other commands come (Continue).
//
// fsm.proto in this directory is the published specification of commands, snapshots, questions and
// answers.
package fsm
