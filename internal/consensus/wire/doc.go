// Package wire sends Raft messages from replica to replica. It is the Raft engine's transport and
// its registry of nodes.
//
// A message goes out by registry.go (the replica's address), sender.go (connections and batches),
// greeting.go (identities), merge.go and frame.go. A frame comes in by carrier.go (connections), receiver.go
// (each step in order), frame.go (bounds, checksum), outline.go (the engine's decoders survive it),
// validate.go (the engine survives it), known.go (its sender may be heard) and author.go (only the
// sender's own proposals pass). withdrawal.go takes back a process that others have refused.
// word.go has what voters see of a process that ends, and what they tell each other of it.
package wire
