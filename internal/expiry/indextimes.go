package expiry

import (
	"iter"
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

// Note takes the number of the command that was applied last. A number below the one before is of a
// log that is applied anew, or of another group's: what was known of the former one is over.
func (a *IndexTimes) Note(number uint64, now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.samples); n > 0 && number < a.samples[n-1].number {
		a.samples, a.gap = nil, 0
	}
	n := len(a.samples)
	if n > 1 && time.Duration(now-a.began) < max(a.gap, sampleGap) { // the first one is where memory begins
		a.samples[n-1] = indexSample{number, now} // what lies between two samples is as old as the later one
		return
	}
	a.began = now
	if n >= samplesMax {
		a.halve()
	}
	a.samples = append(a.samples, indexSample{number, now})
}

// halve drops every second sample. What lies between two is then as old as the later one.
func (a *IndexTimes) halve() {
	half := len(a.samples) / 2
	for i := range half {
		a.samples[i] = a.samples[2*i+1]
	}
	if len(a.samples)%2 == 1 {
		a.samples[half] = a.samples[2*half]
		half++
	}
	a.samples = a.samples[:half]
	a.gap = 2 * max(a.gap, sampleGap)
}

// Restore begins anew: what came as a whole is of unknown age.
func (a *IndexTimes) Restore(number uint64, now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.samples, a.gap, a.began = []indexSample{{number, now}}, 0, now
}

// Forget begins anew, with nothing known.
func (a *IndexTimes) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.samples, a.gap = nil, 0
}

// Ages yields how long ago commands were applied, those of the samples, in their order.
func (a *IndexTimes) Ages(now lease.Instant) iter.Seq2[uint64, time.Duration] {
	a.mu.Lock()
	defer a.mu.Unlock()
	samples := slices.Clone(a.samples)
	return func(yield func(uint64, time.Duration) bool) {
		for _, s := range samples {
			if !yield(s.number, max(0, now.Sub(s.at))) {
				return
			}
		}
	}
}

// Learn takes the Ages of another node, of the same group, for what is before the memory of this one.
// Its first command may have come as a whole: then the other knows how old that is, too.
func (a *IndexTimes) Learn(ages iter.Seq2[uint64, time.Duration], now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var older []indexSample
	for number, age := range ages {
		s := indexSample{number, now - lease.Instant(age)}
		if len(a.samples) > 0 && number >= a.samples[0].number {
			a.samples[0].at = min(a.samples[0].at, s.at)
			break
		}
		older = append(older, s)
	}
	a.samples = append(older, a.samples...)
	for len(a.samples) > samplesMax {
		a.halve()
	}
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
