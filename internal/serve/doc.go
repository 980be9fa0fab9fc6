// Package serve is the side of a replica to its clients: it takes their connections, proposes their
// commands with those of its own callers (fsm.Via), answers their questions, and tells each what
// concerns its sessions, and the locks that it watches, from the replica's apply, in log order. For
// an operator it does what the replica's node does (operate.go). It stands on package seam.
//
//	V1  a client says what a caller may, and only for the process whose key its connection has proved (S9)
//	V2  a connection whose client breaks the protocol ends, with the reason, and nothing else is concerned
//	V3  a client has at most CallsMax calls under way, and a server ClientsMax clients; what waits for a client is bounded, and
//	    one that does not read is cut off: it comes back, and is told of the gap
//	V4  a client that was told of a command is never told, nor answered from, a state before it
package serve
