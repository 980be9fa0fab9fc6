//go:build holdfast_next

package fsm

// A build with the tag holdfast_next stands for the next version in tests. It has one more command.

// LevelKnown is the highest feature level that this version knows.
const LevelKnown = 3

const (
	opNext = opAct + 1
	opEnd  = opNext + 1
)

func later() []addition { return []addition{{operation: opNext, level: 3}} }

// Next changes nothing.
type Next struct{}

func (Next) about() (op, Process)    { return opNext, Process{} }
func (c *Next) fields(*codec)        {}
func (*Next) apply(*Machine) Outcome { return Outcome{} }

// added is the empty struct of an operation of the next version, nil if there is none.
func added(o op) decodable {
	if o == opNext {
		return new(Next)
	}
	return nil
}
