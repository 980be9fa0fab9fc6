//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

// kind is a lock of the workload.
type kind struct {
	name    string
	limit   int           // what an exclusive holder weighs
	shared  bool          // readers share it, a writer has it alone
	minHold time.Duration // all holders ask for it
	delay   time.Duration // all holders ask for it
	set     bool          // holders may have others of the set with it
	ttl     time.Duration // 0: the fleet's
}

// restTime is for how long a place stays taken where its holders ask for that.
const restTime = 700 * time.Millisecond

func kinds() []kind {
	all := []kind{
		{name: story.LedgerLock, limit: 1}, {name: "b", limit: 1}, {name: "c", limit: 1}, {name: "permits", limit: 4},
		{name: "readers", limit: 1000, shared: true}, {name: story.CheckpointLock, limit: 1},
		{name: "rationed", limit: 1, minHold: restTime}, {name: "delayed", limit: 1, delay: restTime},
	}
	for _, name := range setNames() {
		all = append(all, kind{name: name, limit: 1, set: true})
	}
	return all
}

// whole is how to have the lock alone.
func (k kind) whole() []holdfast.Option {
	if k.limit > 1 && !k.shared {
		return []holdfast.Option{holdfast.WithLimit(k.limit), holdfast.WithWeight(k.limit)}
	}
	return nil
}

// options is how to ask for so much of it.
func (k kind) options(weight int) []holdfast.Option {
	if k.ttl > 0 {
		return append(k.share(weight), holdfast.WithTTL(k.ttl))
	}
	return k.share(weight)
}

func (k kind) share(weight int) []holdfast.Option {
	switch {
	case k.minHold > 0:
		return []holdfast.Option{holdfast.WithMinHold(k.minHold)}
	case k.delay > 0:
		return []holdfast.Option{holdfast.WithLockDelay(k.delay)}
	case weight == k.limit:
		return k.whole()
	case k.shared:
		return []holdfast.Option{holdfast.WithShared()}
	}
	return []holdfast.Option{holdfast.WithLimit(k.limit), holdfast.WithWeight(weight)}
}

// weigh chooses how much of the lock to ask for.
func (k kind) weigh(r *rand.Rand) int {
	switch {
	case !k.shared:
		return 1 + r.IntN(k.limit)
	case chance(r, 70):
		return 1
	}
	return k.limit
}

// setPrefix is of the locks that are had alone and together.
const setPrefix = "{set}"

func setNames() []string { return []string{setPrefix + "x", setPrefix + "y", setPrefix + "z"} }

// others chooses one or two further names of the set, in any order.
func others(r *rand.Rand, name string) (list []string) {
	all := setNames()
	for _, i := range r.Perm(len(all)) {
		if all[i] != name {
			list = append(list, all[i])
		}
	}
	return list[:1+r.IntN(len(list))]
}

// checkpoint goes on from the number that the holder before left as the lock's value, and leaves a higher one. It
// does not look at its lease in between: the group alone keeps out those whose time is over.
func (p *process) checkpoint(h *holding, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		e := history.Event{Kind: history.Look, Op: p.op(), Lock: h.kind.name}
		p.event(p.now(), e)
		info, err := p.c.Inspect(within(callLimit), h.kind.name)
		if err != nil {
			p.understand(p.c, "reading a checkpoint", err)
			return
		}
		p.event(p.now(), looked(e, info))
		var n int
		if len(info.Value) > 0 {
			if _, err := fmt.Sscan(string(info.Value), &n); err != nil {
				p.wrong("the checkpoint is %q", info.Value)
				return
			}
		}
		time.Sleep(thinkMin + upTo(r, thinkMax-thinkMin))
		op := p.op()
		if p.set(h, op, fmt.Sprint(n+1, " ", op)) != nil {
			return
		}
		p.probe(h)
	}
}
