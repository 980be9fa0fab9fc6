package consensus

import "sync/atomic"

// chore is work of a replica that has a goroutine only while there is some: an idle replica keeps none for
// it. Runs never overlap, and one begins after each Call, also after a Call during a run.
type chore struct {
	start   func(func()) bool // runs the goroutine; false: the replica has ended
	do      func()
	called  atomic.Bool
	running atomic.Bool
}

// Call has the work done. It never blocks.
func (c *chore) Call() {
	c.called.Store(true)
	if c.running.CompareAndSwap(false, true) && !c.start(c.run) {
		c.running.Store(false)
	}
}

func (c *chore) run() {
	for {
		for c.called.Swap(false) {
			c.do()
		}
		c.running.Store(false)
		if !c.called.Load() || !c.running.CompareAndSwap(false, true) {
			return
		}
	}
}
