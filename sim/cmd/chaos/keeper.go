//go:build unix

package main

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

// Long TTLs: whatever the group thinks of a node, and does to it, its leases are valid for much longer. Nobody waits for
// their end: an operator frees what the dead hold.
const (
	longHold     = 4 * time.Minute // or until the run ends
	longPatience = 90 * time.Second
	keeperPause  = 3 * time.Second
	clearMax     = 10 * time.Second
)

// longs are the locks with long TTLs.
func longs(long time.Duration) []kind {
	return []kind{
		{name: "minute", limit: 1, ttl: time.Minute}, {name: "long", limit: 1, ttl: long},
		{name: "long shared", limit: 100, shared: true, ttl: long},
	}
}

// keeper holds locks with long TTLs again and again.
func (p *process) keeper(r *rand.Rand) {
	for {
		pause(r, keeperPause)
		if p.resting() {
			return
		}
		all := longs(p.plan.Long)
		p.call(all[r.IntN(len(all))], r)
	}
}

// revoke frees all that a node holds, as an operator does who takes it for dead.
func (p *process) revoke(id string) {
	e := history.Event{Kind: history.Revoke, Op: p.op(), Value: id}
	p.event(p.now(), e)
	err := p.c.RevokeNode(within(callLimit), id, forceReason)
	if err != nil {
		p.understand(p.c, "revoking a node", err)
	}
	e.Kind, e.OK = history.Revoked, err == nil
	p.event(p.now(), e)
}

// clear frees by force what the dead hold of a lock, so that nobody has to wait for an hour.
func (p *process) clear(name string) {
	for end := p.now() + clearMax; p.now() < end; time.Sleep(50 * time.Millisecond) {
		info, err := p.c.Inspect(within(callLimit), name)
		if err == nil && len(info.Holders) == 0 {
			return
		}
		for _, h := range info.Holders {
			p.force(name, h.Token)
		}
	}
}

// refused tells that the node could not be opened because its disk runs elsewhere, and waits for the order to end.
func (p *process) refused(err error) error {
	if !errors.Is(err, holdfast.ErrIncompatible) {
		return err
	}
	p.add(p.now(), story.Line{Kind: story.KindDone, Text: superseded})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != orderClose && lines.Text() != orderLeave {
	}
	return nil
}
