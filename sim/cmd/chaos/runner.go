//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
)

const (
	jobEvery = 1500 * time.Millisecond // one job for each, the same in all processes
	jobTime  = 150 * time.Millisecond  // that a job takes, at most
)

// The answers of a job whose lease was over before it could begin, and of one that fails: it stays open.
var (
	errTooLate = errors.New("the lease is over")
	errFailed  = errors.New("the job has failed")
)

// runner runs the job of each slot of time once among all processes, until the callers rest.
func (p *process) runner(r *rand.Rand) {
	for {
		pause(r, jobEvery/2)
		if p.resting() {
			return
		}
		p.job(r, fmt.Sprint("job ", int64(p.now()/jobEvery)))
	}
}

func (p *process) job(r *rand.Rand, key string) {
	e := history.Event{Kind: history.Begun, Lock: key}
	begun, fails := false, chance(r, 20)
	opts := []holdfast.OnceOption{holdfast.OnceTTL(p.plan.TTL)}
	if chance(r, 30) {
		opts = append(opts, holdfast.WaitForRunner())
	}
	result, err := p.c.Once(within(p.plan.TTL+callLimit), key, func(_ context.Context, l *holdfast.Lease) error {
		from := p.now()
		if !l.Valid() {
			return errTooLate // stopped just then
		}
		begun, e.Token = true, uint64(l.Token())
		p.event(from, e)
		time.Sleep(upTo(r, jobTime))
		if fails {
			return errFailed
		}
		return nil
	}, opts...)
	if err != nil {
		p.understand(p.c, "running a job", err, errTooLate, errFailed, holdfast.ErrLost)
	}
	if begun {
		e.Kind, e.OK = history.Finished, err == nil && result.Finished
		p.event(p.now(), e)
	}
}
