package fsm

import "google.golang.org/protobuf/encoding/protowire"

// A group has a feature level, from 1. All that the first release writes is of level 1, and what a
// later version adds to the log is of a level of its own: additions lists it. A command above the
// group's level is refused before the log (Needs). The level rises when all processes know the next.
//
// So a replica below the level of its group never meets what it would skip or misread. It stops at
// the Level instead: internal/consensus compares Machine.Level with what it knows.

// addition is what came after level 1: an operation, or with a field a field of one.
type addition struct {
	operation op
	field     protowire.Number
	level     uint64
}

// additions are all that this version adds to level 1.
func additions() []addition {
	return append([]addition{{operation: opSetQuota, level: LevelOfQuotas}, {operation: opAct, level: LevelOfQuotas}}, later()...)
}

// Needs is the level that a group must have for an encoded command. A command of an operation that
// this version does not know needs more than LevelKnown. What is no command at all needs no level.
func Needs(cmd []byte) uint64 { return needs(cmd, additions()) }

func needs(cmd []byte, all []addition) uint64 {
	cmd, _ = cutVia(cmd)
	switch level := uint64(1); {
	case len(cmd) < 2:
		return level
	case known(cmd) != nil:
		return LevelKnown + 1
	default:
		for _, a := range all {
			if a.operation == op(cmd[1]) && (a.field == 0 || count(cmd[2:], a.field) > 0) {
				level = max(level, a.level)
			}
		}
		return level
	}
}

// Level is the feature level of the group.
func (m *Machine) Level() uint64 { return max(m.level, 1) }

func (c *Level) apply(m *Machine) Outcome {
	if c.Level <= m.Level() {
		return Outcome{}
	}
	for n := range m.Nodes() {
		if n.Lacks(c.Level) {
			return Outcome{Code: CodeTooOld}
		}
	}
	m.level = c.Level
	return Outcome{}
}

// Lacks reports whether the group may not rise to a level because of this process. One that has left
// no session behind counts no more: it says Hello before it asks for anything.
func (n NodeRecord) Lacks(level uint64) bool { return n.Level < level && (!n.Gone || n.Lasting) }
