package model

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Random makes the plan of a seed. Each plan has some kinds of faults and of calls, and lacks
// others (swarm testing): what happens often hides what happens seldom.
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
	if p.Planned = !p.Wild && chance(r, 45); p.Planned {
		p.ReplaceAfter, p.Clumsy, p.Frail = pick[time.Duration](r, 11, 13, 20, 30)*time.Second, chance(r, 50), chance(r, 50)
		p.Duration += 2 * p.ReplaceAfter
		for range r.IntN(4) {
			p.Spares = append(p.Spares, ms(r, 0, pick(r, 1, int(p.Duration/time.Millisecond))))
		}
		p.Nodes += len(p.Spares)
	}
	for range p.Nodes {
		p.Rates = append(p.Rates, p.rate(r))
	}
	ttl := pick[time.Duration](r, 1, 2, 2, 5) * time.Second
	if p.Gentle {
		ttl = max(ttl, 20*p.Election)
	}
	p.TTLs = []time.Duration{ttl, ttl, ttl * 2}[:1+r.IntN(3)]
	if chance(r, 15) { // outlives its holder's node, and the faults
		p.TTLs = append(p.TTLs, 90*time.Second)
	}
	p.Locks = []Kind{{}, {}, {Permits: 3}, {Shared: true}}[:1+r.IntN(4)]
	if chance(r, 35) {
		p.Locks = append(p.Locks, Kind{Election: true})
	}
	for range pick(r, 0, 0, 0, 1, 3) {
		p.Locks = append(p.Locks, Kind{Once: true})
	}
	p.Calls = p.calls(r)
	p.Faults = p.faults(r)
	p.Underway = pick(r, 0, 1, 1)
	for range pick(r, 0, 0, 1, 2) { // there were callers who watched: a seed makes the plan that it made with them
		_, _, _, _ = r.IntN(p.Nodes), pick(r, 2, 20, 4096), ms(r, 1, 1500), ms(r, 0, 300)
	}
	p.Steps = pick(r, 0, 1, 1, 2)
	p.Nowhere = chance(r, 10)
	if p.Planned && p.Nodes > 4 && seed%3 == 0 { // by no draw: the plans of the other seeds are as they were
		p.Voters, p.Standbys = 3, 1
	}
	if seed%4 == 1 { // nor by any draw of theirs
		p.Faults = append(p.Faults, p.bounds(rand.New(rand.NewPCG(seed, 0x71756f74)))...)
	}
	p.Compared = !p.Wild && seed%4 == 2
	if seed%3 == 2 {
		p.recast(rand.New(rand.NewPCG(seed, 0x66726f7a)))
	}
	return p
}

// rate is one that the bound allows, often at its edge: each of two clocks may be off by half of
// it.
func (p *Plan) rate(r *rand.Rand) float64 {
	off := pick(r, -1, 1, 0, r.Float64()*2-1) * p.Drift / 2
	return 1 + off
}

// habits are how often the calls of a plan have what few calls have, in percent.
type habits struct {
	tries, manual, retime, values, maxHold, priority, sets, minHold, delay, fails, runs int

	slow, hasty bool
	askers      int
	keeps       []time.Duration
}

func (p *Plan) calls(r *rand.Rand) (calls []Call) {
	pace := pick(r, 50, 300, 2000)
	h := habits{
		slow:  chance(r, 50),
		tries: pick(r, 0, 20, 60), manual: pick(r, 0, 0, 30), retime: 50, values: pick(r, 0, 0, 30),
		maxHold: pick(r, 0, 0, 20), priority: pick(r, 0, 0, 30),
		sets: pick(r, 0, 0, 10, 50), minHold: pick(r, 0, 0, 0, 20), delay: pick(r, 0, 0, 0, 50), fails: pick(r, 0, 10, 50),
		runs: pick(r, 0, 0, 70), hasty: chance(r, 20), askers: pick(r, 1, p.Nodes, 10*p.Nodes),
		keeps: []time.Duration{ms(r, 1, 300), ms(r, 200, 2000), ms(r, 1000, 10_000)}[:1+r.IntN(3)],
	}
	if h.runs > 0 {
		h.keeps = h.keeps[:1] // soon forgotten: the key is run again, and what was late for one run meets the next
	}
	callers := pick(r, 2, 4, 8, 12)
	for caller := range callers {
		for at := ms(r, 0, pace); at < p.Duration && len(calls) < 3000; {
			c := p.call(r, &h)
			c.Caller, c.At = caller, at
			at += ms(r, 0, pace) + c.Hold + time.Duration(c.Works)*(c.Think+c.Stall) + 10*time.Millisecond
			calls = append(calls, c)
		}
	}
	return calls
}

func (p *Plan) call(r *rand.Rand, h *habits) Call {
	ttl := p.TTLs[0]
	c := Call{
		Node: r.IntN(p.Nodes), Lock: r.IntN(len(p.Locks)), TTL: r.IntN(len(p.TTLs)),
		Wait: !chance(r, h.tries), Manual: chance(r, h.manual), Value: chance(r, h.values),
		Patience: ms(r, 50, int(4*ttl/time.Millisecond)), Works: r.IntN(3), Think: ms(r, 0, 50), Stall: ms(r, 0, 20),
		Hold: ms(r, 0, int(ttl/4/time.Millisecond)), Asker: r.IntN(p.Nodes+h.askers) - h.askers,
	}
	if last := len(p.Locks) - 1; p.Locks[last].Once && chance(r, h.runs) {
		c.Lock, c.Hold = last, ms(r, 0, 200)
	}
	if h.hasty {
		c.Patience = ms(r, 1, 60)
	}
	if h.slow && chance(r, 20) {
		c.Hold, c.Stall = ms(r, 0, int(2*ttl/time.Millisecond)), ms(r, 0, int(ttl/time.Millisecond))
	}
	if chance(r, h.maxHold) {
		c.MaxHold = ms(r, 1, int(2*ttl/time.Millisecond))
	}
	if chance(r, h.priority) {
		c.Priority = int32(r.IntN(3) - 1)
	}
	switch k := p.Locks[c.Lock]; {
	case k.Once:
		c.Keep, c.Fails = pick(r, h.keeps...), chance(r, h.fails)
		c.Manual, c.Value, c.MaxHold, c.Priority = false, false, 0, 0
		return c
	case k.Permits > 0 && !chance(r, 10):
		c.Mode, c.Weight = fsm.Permit, 1+r.Uint32N(k.Permits)
	case k.Shared && chance(r, 60):
		c.Mode = fsm.Shared
	case k.Election && chance(r, 80):
		c.Lead, c.Wait, c.Value = true, true, chance(r, 60)
		c.Patience += c.Hold
	}
	if chance(r, h.sets) && !c.Lead && c.Mode != fsm.Permit {
		c.Others = p.others(r, c)
	}
	if chance(r, h.minHold) {
		c.MinHold = ms(r, 1, int(pick(r, ttl/2, 3*ttl)/time.Millisecond))
	}
	if chance(r, h.delay) {
		c.Delay = ms(r, 1, int(ttl/2/time.Millisecond))
	}
	if c.Manual && chance(r, h.retime) {
		c.Retime = pick(r, ttl/4, ttl/2, p.longest()).Round(time.Millisecond)
	}
	return c
}

func (p *Plan) others(r *rand.Rand, c Call) (bits uint32) {
	for i, k := range p.Locks {
		if i == c.Lock || k.Once || k.Permits > 0 && (c.Mode == fsm.Shared || !chance(r, 10)) || chance(r, 40) {
			continue
		}
		bits |= 1 << i
	}
	return bits
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

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
