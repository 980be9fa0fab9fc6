//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
)

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
