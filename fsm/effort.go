package fsm

// An entry of the log delays every later one until it is carried out. So Apply counts the work of
// its commands, by claims and sessions and not by time, which differs between replicas. One command
// takes away, and serves or tells, as many claims as a step allows; Continues do the rest. A batch
// whose commands have done the work of a few steps is carried out no further: the rest of its
// commands is to be proposed again (CodeLater).
//
// The constants that decide outcomes, here and in the rest of this package, are part of the
// replicated machine: replicas that differ in one of them diverge. A change of one is a change of
// the group's feature level. testdata/constants.v1 holds them.

// stepMax is how many claims one command takes away at most, and how many waiters it serves: a few
// milliseconds of work. Part of the replicated machine.
const stepMax = 256

// stepsOfEntry is after how many steps a batch is carried out no further. A batch whose commands each
// end a grant and serve a waiter stays below it. Part of the replicated machine.
const stepsOfEntry = 5

// pruneMax is how many runs of finished numbers one command forgets because its client has heard of
// them, a step's worth: a session may have 16 times as many. Part of the replicated machine.
const pruneMax = 4096

// What is counted. Part of the replicated machine.
const (
	costOfLook  = 1  // at a claim or session that may stay, to tell a holder that its lock is wanted, or to forget a run of numbers
	costOfClaim = 16 // to grant a claim, queue it or take it away, or to end a session
)

// step is the cost of the claims that one command may take away, and again of those that it may
// serve.
func (m *Machine) step() int { return m.limits.step * costOfClaim }

// charge counts the work of a waiter served or a holder told.
func (m *Machine) charge(cost int) {
	m.left -= cost
	m.work += cost
}

// busy reports whether an entry has done so much that the rest of it is to come again.
func (m *Machine) busy() bool { return m.work >= stepsOfEntry*m.step() || m.traced >= tracerSteps }
