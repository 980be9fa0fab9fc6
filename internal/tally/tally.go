// Package tally counts for metrics, with atomics alone: its callers never wait, and it allocates
// nothing.
package tally

import (
	"net"
	"sync/atomic"
	"time"
)

// bounds is the number of Bounds.
const bounds = 16

// Bounds are the upper ends of the buckets of every Histogram, ascending: from the time of a memory
// access to that of a broken disk.
func Bounds() [bounds]time.Duration {
	const us, ms, s = time.Microsecond, time.Millisecond, time.Second
	return [bounds]time.Duration{
		100 * us, 250 * us, 500 * us, 1 * ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms,
		1 * s, 2500 * ms, 5 * s, 10 * s,
	}
}

// Histogram is a distribution of durations. The zero value is empty. It is safe for concurrent use.
type Histogram struct {
	counts [bounds + 1]atomic.Uint64 // up to each bound and above the one before it; the last: above all
	nanos  atomic.Int64
}

// Observe counts a duration; one below zero counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for _, bound := range Bounds() {
		if d <= bound {
			break
		}
		i++
	}
	h.counts[i].Add(1)
	h.nanos.Add(int64(d))
}

// Read returns the count of durations up to each bound, the count of all, and their sum.
func (h *Histogram) Read() (upTo [bounds]uint64, count uint64, sum time.Duration) {
	for i := range h.counts {
		count += h.counts[i].Load()
		if i < bounds {
			upTo[i] = count
		}
	}
	return upTo, count, time.Duration(h.nanos.Load())
}

// Transfers counts successful transfers: their durations, and their bytes together.
type Transfers struct {
	Took  Histogram
	Bytes atomic.Uint64
}

// Count adds one transfer.
func (t *Transfers) Count(took time.Duration, bytes uint64) {
	t.Took.Observe(took)
	t.Bytes.Add(bytes)
}

// Traffic counts the bytes of a node's connections.
type Traffic struct{ Sent, Received atomic.Uint64 }

// Conn is c with its bytes counted; c itself if t is nil.
func (t *Traffic) Conn(c net.Conn) net.Conn {
	if t == nil {
		return c
	}
	return conn{c, t}
}

type conn struct {
	net.Conn
	traffic *Traffic
}

func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.traffic.Received.Add(uint64(n))
	return n, err
}

func (c conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.Sent.Add(uint64(n))
	return n, err
}
