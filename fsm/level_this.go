//go:build !holdfast_next

package fsm

// LevelKnown is the highest feature level that this version knows.
const LevelKnown = 2

const opEnd = opAct + 1

func later() []addition { return nil }

func added(op) decodable { return nil }
