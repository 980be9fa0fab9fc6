package transport

import (
	"maps"
	"slices"
	"time"
)

// Faults of one direction between two places. Probabilities are from 0 to 1. The zero value is a
// perfect link.
type Faults struct {
	// Drop, Duplicate and Reorder are probabilities per packet. A reordered packet is held back for
	// up to ten milliseconds (or Delay and Jitter, if more), so that later ones overtake it.
	Drop, Duplicate, Reorder float64
	// Delay holds packets and the bytes of streams back, Jitter by a random time more, up to
	// itself. Streams stay in order.
	Delay, Jitter time.Duration
	// Reset is the probability, per write to a stream, that the stream breaks for both sides.
	Reset float64
	// Cut drops packets and holds the bytes and the end of streams back until it is healed. A dial
	// waits while either direction is cut.
	Cut bool
	// CutGossip and CutRaft cut that traffic alone, as a firewall does or secrets that differ.
	// Packets are gossip's.
	CutGossip, CutRaft bool
}

// SetFaults sets the faults from one place to another, replacing earlier ones for the same two
// names. A name is an address ("10.0.0.7:7643"), a host ("10.0.0.7"), or "*" for everybody else.
// Where several apply, the one with the most exact from, then the most exact to, counts; a Cut of
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

// Cut cuts one direction and leaves the other.
func (m *Memory) Cut(from, to string) {
	m.change(func(all map[pair]Faults) { setCut(all, from, to) })
}

// Isolate cuts both directions between name and everybody else.
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
			for _, other := range slices.Concat(slices.Concat(groups[:i]...), slices.Concat(groups[i+1:]...)) {
				for _, name := range group {
					setCut(all, name, other)
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

// change replaces the rules by an edited copy and wakes who waits for an end of a cut.
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
	superseded chan struct{} // closed when other rules hold
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

// onlySelf: name is the host that both share, so that for it "everybody else" does not include
// other.
func (p place) onlySelf(name string, other place) bool { return name == p.host && p.host == other.host }

// cut reports whether the direction is cut, and a channel that closes when that may have changed.
func (m *Memory) cut(from, to place, kind Kind) (bool, <-chan struct{}) {
	r := m.rules.Load()
	return r.of(from, to, kind).Cut, r.superseded
}
