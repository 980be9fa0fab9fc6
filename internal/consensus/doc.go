// Package consensus runs a node's replica of the Raft group. With its rooms it owns the Raft engine
// (dragonboat, which no other package imports) and all that the engine touches: the engine answers
// trouble with a panic in a goroutine of its own, and an embedded library must not end its host's
// process. The rooms, from the bottom:
//
//	preinit  what must happen before the engine's packages are initialised
//	engine   the engine's panics, goroutines and log lines, each kept to its replica
//	store    its files and its log
//	wire     its messages, and what is known of their senders
//
// Fail-stop, not crash: trouble that the engine cannot survive (a disk error, a full disk, a broken
// invariant, a command that is newer than this program) parks the goroutine that met it forever,
// fails the [Group] with a [FailedError] and ends its messages. The process lives on, but may not
// start the replica again.
package consensus
