// Package expiry has the timers of a replica: sessions that are not renewed, places that stay taken
// after their grant, the periods of Once keys, the steps of teardowns. The replica proposes the end
// of each when its timer runs out.
//
//	table.go       the timers, and the proposals that are due: passive, on the pure tables of internal/lease
//	timekeeper.go  the clock and the goroutines: they propose what is due
//	indextimes.go  the time at which this replica applied an index of the log, for people
//
// # How to run it
//
// The caller passes every event of the local replica to Table.Note, and every restored state to
// Table.Restore, in the order of the log, with a time that it reads after the replica has applied
// them. It wakes the Timekeeper after each Restore, and when Note returns true. It gives
// Timekeeper.Run a goroutine, which ends with its context, and runs the proposals that the
// Timekeeper spawns. sim/internal/model runs the Table without a Timekeeper.
//
// All methods are safe for concurrent use. Table.Step reads the state under the table's lock, so a
// caller of Note or Restore must not hold the lock of the state.
//
// # What must hold
//
// E1, E2 and L1 to L4 of internal/lease, and:
//
//	X1  every session, rest, period and teardown of the state has a timer: none stays forever because a replica came late
//	X2  timers of a restored state begin at the restore: they are late, never early
//	X3  what has ended in the log has no timer
//	X4  at most FlightsMax proposals are under way
package expiry
