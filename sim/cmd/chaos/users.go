//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// restTime is for how long a place stays taken where its holders ask for that.
const restTime = 700 * time.Millisecond

// employ makes the callers of the process. They do not wait for the end of long leases, which takes
// real time.
func (p *process) employ() {
	ledger := workload.Plain(story.LedgerLock)
	ledger.Work = p.useResource
	p.users = workload.New(workload.Terms{
		Crowded: p.plan.Crowded, TTL: p.plan.TTL, Long: p.plan.Long, MinHold: restTime, LockDelay: restTime, Late: story.LateMax + time.Second,
		WaitMax: p.plan.TTL, Failing: 5 * time.Second, Locks: []workload.Kind{ledger},
		Pace: workload.Pace{
			Call: 250 * time.Millisecond, Keep: 3 * time.Second, Lead: 4 * p.plan.TTL, Look: time.Second, Job: 1500 * time.Millisecond,
			Hold: 4 * time.Minute, Patience: 90 * time.Second, Glance: 100 * time.Millisecond, Gaze: time.Second,
		},
	}, p).Node(p)
	lots := uint64(0)
	p.users.Start(func() *rand.Rand {
		lots++
		return rand.New(rand.NewPCG(p.plan.Seed, uint64(p.plan.Node)<<32|uint64(p.plan.Life)<<8|lots))
	})
}

// Index is the number of the node.
func (p *process) Index() int { return p.plan.Node }

// Cluster is the node, nil when it has failed.
func (p *process) Cluster() *holdfast.Cluster {
	if p.c.Err() != nil {
		return nil
	}
	return p.c
}

// Awake is closed: callers that can look are not stopped.
func (p *process) Awake() <-chan struct{} { return p.awake }

// Op numbers a call: no other process and no other life of this one uses the number.
func (p *process) Op() uint64 {
	return uint64(p.plan.Node+1)<<48 | uint64(p.plan.Life)<<32 | p.ops.Add(1)
}

// Now is the time since the run began.
func (p *process) Now() time.Duration { return time.Duration(boot() - p.plan.Begin) }

// Add records what a caller saw.
func (p *process) Add(e history.Event) {
	p.add(p.Now(), story.Line{Kind: story.KindEvent, Event: &e})
}

// Observe records what look sees, in a line that says when it began to look.
func (p *process) Observe(look func() (history.Event, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.Now()
	if e, ok := look(); ok {
		p.write(from, story.Line{Kind: story.KindEvent, Event: &e})
	}
}

// Wrong records what must never happen.
func (p *process) Wrong(_ int, text string) {
	p.add(p.Now(), story.Line{Kind: story.KindWrong, Text: text})
}

func (p *process) wrong(format string, args ...any) {
	p.Wrong(p.plan.Node, fmt.Sprintf(format, args...))
}

// note tells people something, and the parent that an order has been carried out.
func (p *process) note(text string) {
	p.add(p.Now(), story.Line{Kind: story.KindNote, Text: text})
}
