package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

const many = 100_000

func BenchmarkExpiriesRenewedWith100kSessions(b *testing.B) {
	e := lease.NewExpiries(stagger, retry)
	now, index := lease.Instant(0), uint64(0)
	for b.Loop() {
		index++
		now += 50 * lease.Instant(time.Microsecond) // a round of all is 5 s
		e.Renewed(session(index%many), index, 15*time.Second, now)
		if due, _ := e.Step(now, true, 1000); len(due) > 0 {
			b.Fatal("a renewed session is due")
		}
	}
}

func BenchmarkPlanRenewedWith100kSessions(b *testing.B) {
	p := lease.NewPlan(0.01, noJitter)
	for n := range uint64(many) {
		p.Open(n, 15*time.Second, 0, true)
	}
	now, number := lease.Instant(0), uint64(0)
	for b.Loop() {
		number++
		now += 45 * lease.Instant(time.Microsecond)
		if _, _, ok := p.Renewed(number%many, now, now); !ok {
			b.Fatal("lost")
		}
		p.Step(now)
	}
}
