// Package expiry times the state on each replica: sessions that are not renewed, places that stay
// taken after their grant, the periods of Once keys, the steps of teardowns. The replica proposes
// the end of each that is over by its clock.
//
//	table.go       what is timed, and what is due: passive, with the pure tables of internal/lease
//	timekeeper.go  proposes what is due: the clock and the goroutines
//	indextimes.go  when an index of the log was applied, for people
//
// # Who does what
//
// The caller gives every event of the local replica to Table.Note, and every state that came as a
// whole to Table.Restore, in the order of the log, with a time that it reads after the replica has
// applied them. When Note says so, and after each Restore, it wakes the Timekeeper. It gives a
// goroutine to Timekeeper.Run, which ends with its context, and runs the proposals that the
// Timekeeper spawns. internal/model runs the Table without a Timekeeper.
//
// All methods are safe for concurrent use. Table.Step looks at the state while it holds the table's
// lock, so a caller of Note or Restore must not hold that of the state.
//
// # What must hold
//
// E1, E2 and L1 to L4 of internal/lease, and:
//
//	X1  what the state has, and what an event told, is timed: nothing stays taken forever because a replica came late
//	X2  what a restored state has is timed from the restore: late, never early
//	X3  what is over by the log is timed no more
//	X4  at most FlightsMax proposals are under way
package expiry
