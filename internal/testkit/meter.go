package testkit

import (
	"sync"
	"time"
)

// GapMax is for how long nobody may have a busy lock during a rolling update.
const GapMax = time.Second

// Meter measures for how long nobody has a busy lock.
type Meter struct {
	mu    sync.Mutex
	last  time.Time
	gap   time.Duration
	turns int
}

// Turn says that somebody has the lock now.
func (m *Meter) Turn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.gap = max(m.gap, now.Sub(m.last))
	m.last = now
	m.turns++
}

// Reset begins anew.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.gap, m.turns = time.Now(), 0, 0
}

// Read returns the longest gap since Reset, and how many turns there were.
func (m *Meter) Read() (gap time.Duration, turns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.gap, time.Since(m.last)), m.turns
}
