// Package transport carries no promise of compatibility: it is public for tests, which use its
// in-process network. It gives a node one address for everything: raft, gossip and probes share one
// port number, TCP for connections and UDP for packets.
//
// A connection is made in three steps: TCP, then mutual TLS 1.3 when Options.TLS is set, then a
// preface of four bytes ("HF", a version, a Kind) that says which part of the node it is for. What
// comes before the end of the preface is a stranger's: it has limits in number, memory and time,
// and what it says reaches nobody. Without TLS whoever sends a preface is let in.
//
// There are two networks: TCP, on real sockets, and Memory, inside one process, with faults by seed
// (drop, delay, duplicate, reorder, cut, reset) for tests and simulations, also within
// testing/synctest bubbles. Both stand below the same endpoint, so that what is tested on one holds
// on the other.
//
// The promises of an endpoint, each with a test:
//
//  1. Streams are ordered and intact, or they break: a byte is never lost, changed or doubled
//     silently.
//  2. Packets are best effort: lost, late, doubled or out of order, but never changed or cut short.
//  3. Close is synchronous: afterwards no goroutine, descriptor, connection or port is left.
//  4. No bytes from the network crash the process, and memory spent on strangers is bounded.
//  5. A burst of connections from one host, half-open or idle, does not keep other hosts out, nor
//     end a connection of this host that is in use.
package transport
