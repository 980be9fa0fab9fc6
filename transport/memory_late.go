package transport

import (
	"slices"
	"sync"
	"time"
)

const lateMax = 4096 // packets under way to one endpoint; more are lost

// lateQueue delivers packets at their time, and those of one time in the order of sending. One
// timer serves all of them; there is no goroutine while nothing is due.
type lateQueue struct {
	deliver func(Packet)

	mu      sync.Mutex
	packets []latePacket
	timer   *time.Timer
	closed  bool
}

type latePacket struct {
	Packet
	due time.Time
}

func (q *lateQueue) add(p Packet, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.packets) >= lateMax {
		return
	}
	at := q.dueBy(due)
	q.packets = slices.Insert(q.packets, at, latePacket{p, due})
	if at == 0 {
		q.arm()
	}
}

// dueBy is the number of packets that are due at now or earlier.
func (q *lateQueue) dueBy(now time.Time) int {
	n, _ := slices.BinarySearchFunc(q.packets, now, func(p latePacket, now time.Time) int {
		if p.due.After(now) {
			return 1
		}
		return -1
	})
	return n
}

// arm sets the timer for the earliest packet.
func (q *lateQueue) arm() {
	wait := time.Until(q.packets[0].due)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.fire)
		return
	}
	q.timer.Reset(wait)
}

func (q *lateQueue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.dueBy(time.Now())
	for _, p := range q.packets[:n] {
		q.deliver(p.Packet)
	}
	q.packets = slices.Delete(q.packets, 0, n)
	if len(q.packets) > 0 {
		q.arm()
	}
}

func (q *lateQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.packets = true, nil
	if q.timer != nil {
		q.timer.Stop()
	}
}
