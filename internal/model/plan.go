package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Plan is all that decides a run. Leaving out calls or faults leaves a plan that can be run, too.
type Plan struct {
	Story     string `json:",omitempty"` // what a stored plan found once
	Seed      uint64 // of what is not written here: delays, losses, election timeouts
	Nodes     int
	Voters    int // the first nodes
	Election  time.Duration
	Sync      time.Duration // a raft leader gathers proposals for so long
	Snapshot  int           // entries between two snapshots of a replica
	Drift     float64       // what the nodes are told about their clocks
	Rates     []float64     // of the clocks
	Wild      bool          // clocks may break that bound: no promise about true time holds
	Gentle    bool          // faults come with room between them: nobody may be late
	Net       Net
	TTLs      []time.Duration
	Locks     []Kind
	Calls     []Call
	Faults    []Fault
	Duration  time.Duration // of the faults
	Operators bool          // force locks free
}

// Net is how messages travel, while there are faults at all.
type Net struct {
	Delay, Jitter time.Duration
	Loss, Dup     float64       // parts of all messages
	Straggle      time.Duration // one in 64 is late by up to this
}

// Kind is what sort of lock a name is.
type Kind struct {
	Permits uint32 // 0: exclusive or shared
	Shared  bool   // some hold it shared
}

func (k Kind) limit(m fsm.Mode) uint32 {
	if m == fsm.Permit {
		return k.Permits
	}
	return 0
}

// Call is one Acquire and what follows.
type Call struct {
	Caller, Node, Lock, TTL int
	At                      time.Duration // or when the caller's last one is over
	Wait                    bool
	Mode                    fsm.Mode
	Weight                  uint32
	Priority                int32
	Manual, Value           bool
	Patience                time.Duration
	Works                   int           // updates of the resource
	Think                   time.Duration // between reading and writing
	Stall                   time.Duration // between looking at the lease and writing
	Hold                    time.Duration // after the last update
	MaxHold                 time.Duration // 0: none
	Asker                   int           // this node asks whether the token is current, with each update; -1: none
}

// sharesMax stands for all of a lock without permits.
const sharesMax = 1000

// share is how much of how much the call's lease takes.
func (c Call) share(k Kind) (weight, limit int) {
	switch {
	case c.Mode == fsm.Permit:
		return int(c.Weight), int(k.Permits)
	case c.Mode == fsm.Shared:
		return 1, sharesMax
	case k.Permits > 0:
		return int(k.Permits), int(k.Permits)
	}
	return sharesMax, sharesMax
}

func (c Call) brief() string {
	s := fmt.Sprintf("%v, patience %v", c.Mode, c.Patience.Round(time.Millisecond))
	if c.Manual {
		s += ", manual"
	}
	if !c.Wait {
		s += ", try"
	}
	return s
}

// Callers is one more than the highest caller's number.
func (p *Plan) Callers() int {
	n := 0
	for _, c := range p.Calls {
		n = max(n, c.Caller+1)
	}
	return n
}

// Random makes the plan of a seed. Each plan has some kinds of faults and of calls, and lacks others (swarm
// testing): what happens often hides what happens seldom.
func Random(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x686f6c64))
	p := Plan{
		Seed: seed, Nodes: pick(r, 3, 3, 4, 5, 5), Drift: pick(r, 0.01, 0.04, 0.1),
		Election: pick[time.Duration](r, 200, 200, 200, 400)*time.Millisecond + ms(r, 0, 20),
		Sync:     ms(r, 0, 3), Snapshot: pick(r, 10, 40, 200, 1000), Gentle: chance(r, 40),
		Net:      Net{Delay: ms(r, 0, 2), Jitter: ms(r, 0, 5)},
		Duration: time.Duration(20+r.IntN(100)) * time.Second,
	}
	p.Voters = pick(r, 3, p.Nodes)
	if p.Voters == 4 {
		p.Voters = 3
	}
	if !p.Gentle {
		p.Wild, p.Operators = chance(r, 15), chance(r, 25)
		p.Net.Loss, p.Net.Dup = maybe(r, 40, 0.2), maybe(r, 50, 0.3)
		p.Net.Straggle = time.Duration(maybe(r, 40, 5) * float64(time.Second))
	}
	for range p.Nodes {
		p.Rates = append(p.Rates, p.rate(r))
	}
	ttl := pick[time.Duration](r, 1, 2, 2, 5) * time.Second
	if p.Gentle {
		ttl = max(ttl, 20*p.Election)
	}
	p.TTLs = []time.Duration{ttl, ttl, ttl * 2}[:1+r.IntN(3)]
	p.Locks = []Kind{{}, {}, {Permits: 3}, {Shared: true}}[:1+r.IntN(4)]
	p.Calls = p.calls(r)
	p.Faults = p.faults(r)
	return p
}

// rate is one that the bound allows, often at its edge: each of two clocks may be off by half of it.
func (p *Plan) rate(r *rand.Rand) float64 {
	off := pick(r, -1, 1, 0, r.Float64()*2-1) * p.Drift / 2
	return 1 + off
}

func (p *Plan) calls(r *rand.Rand) (calls []Call) {
	ttl := p.TTLs[0]
	pace := pick(r, 50, 300, 2000)
	slow := chance(r, 50)
	tries, manual, values := pick(r, 0, 20, 60), pick(r, 0, 0, 30), chance(r, 30)
	maxHold, priority := pick(r, 0, 0, 20), pick(r, 0, 0, 30)
	callers := pick(r, 2, 4, 8, 12)
	hasty, askers := chance(r, 20), pick(r, 1, p.Nodes, 10*p.Nodes)
	for caller := range callers {
		for at := ms(r, 0, pace); at < p.Duration && len(calls) < 3000; {
			c := Call{
				Caller: caller, Node: r.IntN(p.Nodes), Lock: r.IntN(len(p.Locks)), TTL: r.IntN(len(p.TTLs)),
				At: at, Wait: !chance(r, tries), Manual: chance(r, manual), Value: values && chance(r, 30),
				Patience: ms(r, 50, int(4*ttl/time.Millisecond)), Works: r.IntN(3), Think: ms(r, 0, 50), Stall: ms(r, 0, 20),
				Hold: ms(r, 0, int(ttl/4/time.Millisecond)), Asker: r.IntN(p.Nodes+askers) - askers,
			}
			if hasty {
				c.Patience = ms(r, 1, 60)
			}
			if slow && chance(r, 20) {
				c.Hold, c.Stall = ms(r, 0, int(2*ttl/time.Millisecond)), ms(r, 0, int(ttl/time.Millisecond))
			}
			if chance(r, maxHold) {
				c.MaxHold = ms(r, 1, int(2*ttl/time.Millisecond))
			}
			if chance(r, priority) {
				c.Priority = int32(r.IntN(3) - 1)
			}
			switch k := p.Locks[c.Lock]; {
			case k.Permits > 0 && !chance(r, 10):
				c.Mode, c.Weight = fsm.Permit, 1+r.Uint32N(k.Permits)
			case k.Shared && chance(r, 60):
				c.Mode = fsm.Shared
			}
			at += ms(r, 0, pace) + c.Hold + time.Duration(c.Works)*(c.Think+c.Stall) + 10*time.Millisecond
			calls = append(calls, c)
		}
	}
	return calls
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// maybe is a number below most, or 0.
func maybe(r *rand.Rand, percent int, most float64) float64 {
	x := r.Float64() * most
	if !chance(r, percent) {
		return 0
	}
	return x
}

func ms(r *rand.Rand, from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(r.Int64N(int64(to-from)*int64(time.Millisecond)+1))
}

// longest is the longest TTL in use.
func (p *Plan) longest() time.Duration { return slices.Max(p.TTLs) }
