// Package sparse keeps what happens often from filling the log: some lines in a period, and with
// the next one how many were left out.
package sparse

import (
	"sync"
	"time"
)

// Lines lets Most lines through in each Period, which begins with its first line. Both must be set.
// It is safe for concurrent use.
type Lines struct {
	Most   int
	Period time.Duration

	mu      sync.Mutex
	end     time.Time // of the period
	used    int
	dropped int
}

// Take reports whether a line may be written now, and how many might not since the last one.
func (l *Lines) Take(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.end) {
		l.end, l.used = now.Add(l.Period), 0
	}
	if l.used >= l.Most {
		l.dropped++
		return 0, false
	}
	l.used++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
