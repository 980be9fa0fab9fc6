package expiry

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// IndexTimes knows when this node applied what, roughly: how old a command is, for people. What
// decides anything is timed by the Table. The zero value knows nothing.
type IndexTimes struct {
	mu      sync.Mutex
	samples []indexSample // by command
	gap     time.Duration
	began   lease.Instant // of the last sample, which takes in what comes within gap
}

type indexSample struct {
	number uint64 // of the command
	at     lease.Instant
}

const (
	samplesMax = 2048                  // samples; beyond, every second one is dropped and further ones come half as often
	sampleGap  = 50 * time.Millisecond // what one sample takes in at first
)

// Note takes the number of the command that was applied last.
func (a *IndexTimes) Note(number uint64, now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.samples)
	if n > 0 && time.Duration(now-a.began) < max(a.gap, sampleGap) {
		a.samples[n-1] = indexSample{number, now} // what lies between two samples is as old as the later one
		return
	}
	a.began = now
	if len(a.samples) >= samplesMax {
		for i := range samplesMax / 2 {
			a.samples[i] = a.samples[2*i+1]
		}
		a.samples = a.samples[:samplesMax/2]
		a.gap = 2 * max(a.gap, sampleGap)
	}
	a.samples = append(a.samples, indexSample{number, now})
}

// Restore begins anew: what came as a whole is of unknown age.
func (a *IndexTimes) Restore(number uint64, now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.samples, a.gap, a.began = []indexSample{{number, now}}, 0, now
}

// At is when a command was applied at the latest, and never after now, which the caller may have read
// before a later command moved its sample. It is false for what is older than this node's memory.
func (a *IndexTimes) At(number uint64, now lease.Instant) (lease.Instant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.samples) == 0 || number < a.samples[0].number {
		return 0, false
	}
	i, _ := slices.BinarySearchFunc(a.samples, number, func(s indexSample, number uint64) int {
		if s.number < number {
			return -1
		}
		return 1
	})
	if i == len(a.samples) {
		return now, true
	}
	return min(a.samples[i].at, now), true
}

// Between is about how long after one command another was applied, 0 if that is not known.
func (a *IndexTimes) Between(from, to uint64, now lease.Instant) time.Duration {
	begin, ok := a.At(from, now)
	end, _ := a.At(to, now)
	if !ok {
		return 0
	}
	return time.Duration(end - begin)
}
