// Package consensus keeps a node's replica of the Raft group. It owns the Raft engine (dragonboat,
// which no other package imports) and everything the engine touches: its messages, its files, its
// log store, its logger and its node registry are this package's own, because the engine answers
// trouble with a panic in a goroutine of its own, and an embedded library must not end its host's
// process.
//
// Fail-stop, not crash: what the engine cannot survive (a disk error, a full disk, a broken
// invariant, a command that is newer than this program) parks the goroutine that met it for ever,
// fails the [Group] with a [FailedError] and silences its messages. The process lives on; the
// replica does not: nothing of it may be started again in this process.
//
// One file per subject: group.go, open.go and close.go (life cycle), gate.go (calls beside Close),
// host.go (the engine's settings), propose.go (commands and barriers), machine.go (the apply side),
// members.go and leader.go, clocks.go, raise.go and opening.go (tokens after a restore),
// registry.go (nodes to addresses), carrier.go, sender.go, receiver.go, frame.go, outline.go and
// validate.go (messages), disk.go, file.go, sstable.go and stamp.go (files), logstore.go and
// link.go (one fsync per proposal), depth.go (what is on the disk), known.go, position.go, heard.go
// and author.go (what is known of others), highwatermark.go and audit.go (what is known of the own
// directory), logger.go and attribute.go. Package stdlog gives the host its standard logger back.
package consensus
