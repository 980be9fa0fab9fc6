// Package virtual tests fleets under virtual time that take long: faults by chance
// (nemesis_test.go), operators' acts at every second, rolling updates, what becomes of nodes that
// the group has removed, fleets of many nodes or callers. It has no code but tests.
//
// A test belongs here when it takes more than a second of one processor; what a caller is promised,
// shown on a single node or a small fleet, stays in internal/contract. Nothing here has a socket, a
// file or a process, nor does anything wait for real time: a busy machine makes it slower and
// changes no result. With -short each takes some points of its sweep. Time limit: 15 minutes (go
// test -timeout 15m ./sim/virtual).
package virtual
