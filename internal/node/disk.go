package node

import (
	"fmt"
	"sync/atomic"
	"time"
)

// disk is what a node knows of its data directory while it has no replica: from then on illness watches
// the writes of the log.
type disk struct{ began atomic.Pointer[time.Time] } // of the write under way; nil: there is none

// begin notes that a write begins. Where it is not finished after waitTold, the log says so, once.
func (d *disk) begin(n *Node) (finished func()) {
	now := time.Now()
	d.began.Store(&now)
	late := time.AfterFunc(waitTold, func() {
		if n.ctx.Err() == nil {
			n.log.Error("the disk has not finished a write to the data directory: this node waits for it", "for", waitTold.String())
		}
	})
	return func() {
		late.Stop()
		d.began.CompareAndSwap(&now, nil)
	}
}

// words say that the disk hangs, "" if it does not.
func (d *disk) words() string {
	began := d.began.Load()
	if began == nil || time.Since(*began) < unheardMin {
		return ""
	}
	return fmt.Sprintf("the disk has not finished a write for %d s", int(time.Since(*began).Seconds()))
}
