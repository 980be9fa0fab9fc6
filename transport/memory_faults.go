package transport

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Faults of one direction between two places. Probabilities are from 0 to 1. The zero value is a
// perfect link.
type Faults struct {
	// Drop, Duplicate and Reorder are probabilities per packet. A reordered packet is delayed by up
	// to ten milliseconds (or Delay and Jitter, if more), so that later ones overtake it.
	Drop, Duplicate, Reorder float64
	// Delay delays packets and the bytes of streams, by a random time up to Jitter more. Streams
	// stay in order.
	Delay, Jitter time.Duration
	// Reset is the probability, per write to a stream, that the stream breaks for both sides.
	Reset float64
	// Cut drops packets and delays the bytes and the end of streams until it is healed. A dial waits
	// while either direction is cut.
	Cut bool
	// Large, above 0, loses packets of more bytes, and whole writes of more bytes to a stream. A
	// stream of KindClient holds these, and what comes after them, until the fault ends.
	Large int
	// CutGossip and CutRaft cut that traffic alone, like a firewall or different secrets. Packets
	// are gossip's.
	CutGossip, CutRaft bool
	// Refuse refuses dials at once, as the kernel does where nothing listens, also while the link is
	// cut. What is connected stays so: see Break.
	Refuse bool
}

// loses reports whether so many bytes are lost for their number.
func (f Faults) loses(size int) bool { return f.Large > 0 && size > f.Large }

// SetFaults sets the faults from one place to another, replacing earlier ones for the same two
// names. A name is an address ("10.0.0.7:7643"), a host ("10.0.0.7"), or "*" for all others. Of
// several that apply, the one with the most exact from, then the most exact to, counts; a Cut of
// any counts.
func (m *Memory) SetFaults(from, to string, f Faults) {
	m.change(func(all map[pair]Faults) {
		if f == (Faults{}) {
			delete(all, pair{from, to})
			return
		}
		all[pair{from, to}] = f
	})
}

// Cut cuts one direction.
func (m *Memory) Cut(from, to string) {
	m.change(func(all map[pair]Faults) { setCut(all, from, to) })
}

// Isolate cuts both directions between name and all others.
func (m *Memory) Isolate(name string) {
	m.change(func(all map[pair]Faults) {
		setCut(all, name, "*")
		setCut(all, "*", name)
	})
}

// Partition cuts both directions between any two names of different groups.
func (m *Memory) Partition(groups ...[]string) {
	m.change(func(all map[pair]Faults) {
		for i, group := range groups {
			for j, others := range groups {
				for _, name := range group {
					for _, other := range others {
						if i != j {
							setCut(all, name, other)
						}
					}
				}
			}
		}
	})
}

// Heal ends all cuts, or only those set under one of the names; other faults stay.
func (m *Memory) Heal(names ...string) {
	m.change(func(all map[pair]Faults) {
		for p, f := range all {
			if len(names) > 0 && !slices.Contains(names, p.from) && !slices.Contains(names, p.to) {
				continue
			}
			f.Cut = false
			if all[p] = f; f == (Faults{}) {
				delete(all, p)
			}
		}
	})
}

// Calm ends all faults.
func (m *Memory) Calm() {
	m.change(func(all map[pair]Faults) { clear(all) })
}

// Break resets every stream between the two (addresses or hosts), in both directions: reads and
// writes fail on either side at once, also across a cut.
func (m *Memory) Break(a, b string) {
	m.mu.Lock()
	var broken []*stream
	for s := range m.streams {
		if s.from.is(a) && s.to.is(b) || s.from.is(b) && s.to.is(a) {
			broken = append(broken, s)
		}
	}
	m.mu.Unlock()
	for _, s := range broken {
		s.reset()
	}
}

func (p place) is(name string) bool { return name == p.addr || name == p.host || name == "*" }

func setCut(all map[pair]Faults, from, to string) {
	f := all[pair{from, to}]
	f.Cut = true
	all[pair{from, to}] = f
}

// change replaces the rules by an edited copy and wakes the waits for the end of a cut.
func (m *Memory) change(edit func(map[pair]Faults)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.rules.Load()
	faults := maps.Clone(old.faults)
	edit(faults)
	m.rules.Store(newRules(faults))
	close(old.superseded)
}

// pair names a direction.
type pair struct{ from, to string }

// rules are all faults at one time. Immutable.
type rules struct {
	faults     map[pair]Faults
	superseded chan struct{} // closed by the next rules
}

func newRules(faults map[pair]Faults) *rules {
	if faults == nil {
		faults = make(map[pair]Faults)
	}
	return &rules{faults: faults, superseded: make(chan struct{})}
}

// of returns the faults of one kind of traffic from one endpoint to another.
func (r *rules) of(from, to place, kind Kind) Faults {
	var result Faults
	if len(r.faults) == 0 || from.addr == to.addr {
		return result
	}
	found, cut := false, false
	for _, f := range [...]string{from.addr, from.host, "*"} {
		for _, t := range [...]string{to.addr, to.host, "*"} {
			rule, ok := r.faults[pair{f, t}]
			if !ok || f == "*" && to.onlySelf(t, from) || t == "*" && from.onlySelf(f, to) {
				continue
			}
			if !found {
				result, found = rule, true
			}
			cut = cut || rule.Cut || kind == KindGossip && rule.CutGossip || kind == KindRaft && rule.CutRaft
		}
	}
	result.Cut, result.CutGossip, result.CutRaft = cut, false, false
	return result
}

// onlySelf reports whether name is the host of both, so that "*" beside it does not include other.
func (p place) onlySelf(name string, other place) bool { return name == p.host && p.host == other.host }

// cut reports whether the direction is cut, and returns a channel that closes with the next rules.
func (m *Memory) cut(from, to place, kind Kind) (bool, <-chan struct{}) {
	r := m.rules.Load()
	return r.of(from, to, kind).Cut, r.superseded
}

const reorderHold = 10 * time.Millisecond

// link draws the random numbers of one direction. Packets and streams have a generator each, so
// that the fate of a packet does not depend on the bytes before it.
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

// packet returns the delay of each copy of a packet, none if it is lost. It always draws the same
// count of numbers, so that a change of one probability does not change the effect of the others.
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

// stream returns the delay of a write, and whether the stream breaks instead.
func (l *link) stream(f Faults) (delay time.Duration, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	broken, jitter := l.streams.Float64(), l.streams.Float64()
	return f.Delay + portion(f.Jitter, jitter), broken < f.Reset
}

func portion(d time.Duration, of float64) time.Duration { return time.Duration(of * float64(d)) }
