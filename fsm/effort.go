package fsm

// An entry of the log holds everybody up until it is carried out. So Apply counts the work of its
// commands, by what they do and not by time, which is another on each replica. One command takes
// away as many claims, and serves or tells as many who wait, as a step allows; the rest is for
// Continues. A batch whose commands have done the work of a few steps is carried out no further:
// the rest of them is to come again (CodeLater).

// stepMax is how many claims one command takes away at most, and how many waiters it serves: a few
// milliseconds of work.
const stepMax = 256

// stepsOfEntry is after how many steps a batch is carried out no further. One of which each command
// ends a grant and serves a waiter stays below it.
const stepsOfEntry = 5

// What is counted.
const (
	costOfLook  = 1  // at a claim or session that may stay, or to tell a holder that its lock is wanted
	costOfClaim = 16 // to grant a claim, queue it or take it away, or to end a session
)

// step is what one command may cost for what it takes away, and as much again for those whom it
// serves.
func (m *Machine) step() int { return m.limits.step * costOfClaim }

// charge counts work for those whom a command serves.
func (m *Machine) charge(cost int) {
	m.left -= cost
	m.work += cost
}

// busy reports whether an entry has done so much that the rest of it is to come again.
func (m *Machine) busy() bool { return m.work >= stepsOfEntry*m.step() || m.traced >= tracerSteps }
