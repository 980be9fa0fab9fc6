package transport

import (
	"container/heap"
	"sync"
	"time"
)

const lateMax = 4096 // packets under way to one endpoint; more are lost

// lateQueue delivers packets at their time, in the order of that time and then of sending. One
// timer serves all of them; there is no goroutine while nothing is due.
type lateQueue struct {
	deliver func(Packet)

	mu     sync.Mutex
	heap   lateHeap
	sent   uint64
	timer  *time.Timer
	closed bool
}

type latePacket struct {
	Packet
	due  time.Time
	sent uint64
}

func (q *lateQueue) add(p Packet, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.heap) >= lateMax {
		return
	}
	q.sent++
	heap.Push(&q.heap, latePacket{p, due, q.sent})
	if q.heap[0].sent == q.sent {
		q.arm()
	}
}

// arm sets the timer for the earliest packet.
func (q *lateQueue) arm() {
	wait := time.Until(q.heap[0].due)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.fire)
		return
	}
	q.timer.Reset(wait)
}

func (q *lateQueue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.heap) > 0 && !q.heap[0].due.After(now) {
		q.deliver(heap.Pop(&q.heap).(latePacket).Packet)
	}
	if len(q.heap) > 0 && !q.closed {
		q.arm()
	}
}

func (q *lateQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.heap = true, nil
	if q.timer != nil {
		q.timer.Stop()
	}
}

type lateHeap []latePacket

func (h lateHeap) Len() int      { return len(h) }
func (h lateHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h lateHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].sent < h[j].sent
	}
	return h[i].due.Before(h[j].due)
}

// Push and Pop are container/heap's.
func (h *lateHeap) Push(x any) { *h = append(*h, x.(latePacket)) }

func (h *lateHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = latePacket{}
	*h = (*h)[:last]
	return p
}
