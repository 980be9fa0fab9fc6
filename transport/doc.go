// Package transport carries no promise of compatibility: it is public for tests, which use its
// in-process network. It gives a node one address: raft, gossip, probes and clients share one port number,
// TCP for connections and UDP for packets.
//
// A connection is made in three steps: TCP, mutual TLS 1.3 if Options.TLS is set, and a preface of
// four bytes ("HF", a version, a Kind) that names the part of the node it is for. Connections
// without a complete preface are strangers: their number, memory and time are limited, and their
// bytes reach no other package. Without TLS every peer that sends a preface is admitted.
//
// There are two networks: TCP, on real sockets, and Memory, inside one process, with faults by seed
// (drop, delay, duplicate, reorder, cut, reset) for tests and simulations, also within
// testing/synctest bubbles. Both serve the same endpoint, so a test on one holds for the other.
//
// The promises of an endpoint, each with a test:
//
//  1. Streams are ordered and intact, or they break: a byte is never lost, changed or doubled
//     silently.
//  2. Packets are best effort: lost, late, doubled or out of order, but never changed or cut short.
//  3. Close is synchronous: afterwards no goroutine, descriptor, connection or port of an endpoint is
//     left. A handler is its owner's, and finds its connection closed. A function of Options.TLS that
//     does not return is not waited for; the goroutines that such functions keep are bounded.
//  4. No bytes from the network crash the process, and strangers use bounded memory.
//  5. A burst of connections from one host, half-open or idle, neither keeps other hosts out nor
//     ends a connection of this host that is in use.
package transport
