//go:build !holdfast_next

package fsm

// LevelKnown is the highest feature level that this version knows.
const LevelKnown = 1

const opEnd = opResize + 1

func additions() []addition { return nil }

func added(op) decodable { return nil }
