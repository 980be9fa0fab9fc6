package transport

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

const reorderHold = 10 * time.Millisecond

// link draws the lots of one direction. Packets and streams have generators of their own, so that
// the fate of a packet does not hang on how many bytes went before it.
type link struct {
	mu      sync.Mutex
	packets *rand.Rand
	streams *rand.Rand
}

func newLink(seed uint64, p pair) *link {
	h := fnv.New64a()
	h.Write([]byte(p.from + "\x00" + p.to))
	name := h.Sum64()
	return &link{
		packets: rand.New(rand.NewPCG(seed, name)),
		streams: rand.New(rand.NewPCG(seed, ^name)),
	}
}

// packet returns how long each copy of a packet takes; none if it is lost. It always draws the same
// count of lots, so that changing one probability does not change what the others decide.
func (l *link) packet(f Faults) (copies []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drop, twice, late := l.packets.Float64(), l.packets.Float64(), l.packets.Float64()
	jitter, jitterTwice, hold := l.packets.Float64(), l.packets.Float64(), l.packets.Float64()
	if f.Cut || drop < f.Drop {
		return nil
	}
	first := f.Delay + portion(f.Jitter, jitter)
	if late < f.Reorder {
		first += 1 + portion(max(reorderHold, f.Delay+f.Jitter), hold)
	}
	copies = append(copies, first)
	if twice < f.Duplicate {
		copies = append(copies, f.Delay+portion(f.Jitter, jitterTwice))
	}
	return copies
}

// stream returns how long a write's bytes take, and whether the stream breaks instead.
func (l *link) stream(f Faults) (delay time.Duration, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	broken, jitter := l.streams.Float64(), l.streams.Float64()
	return f.Delay + portion(f.Jitter, jitter), broken < f.Reset
}

func portion(d time.Duration, of float64) time.Duration { return time.Duration(of * float64(d)) }
