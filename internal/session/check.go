package session

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Check returns what is wrong with the invariants of the package comment; nil if nothing is. It is
// for tests: nothing else may be under way in the table.
func (t *Table) Check(now lease.Instant) error {
	all := t.All()
	for _, s := range all {
		if err := t.checkSession(s, now); err != nil {
			return err
		}
	}
	for ttl, s := range t.shared {
		if s.TTL() != ttl || s.manual || s.over != nil || t.sessions[s.id.Number] != s {
			return broken(5, s, "is shared for %v", ttl)
		}
	}
	if t.numbers.Open() != len(all) {
		return fmt.Errorf("invariant K7: %d session numbers are in use, of %d sessions", t.numbers.Open(), len(all))
	}
	for s, d := range t.debts.jobs {
		if d.s != s || d.Command() == nil {
			return broken(8, s, "stands in line for nothing")
		}
	}
	if len(t.debts.line) != len(t.debts.jobs) {
		return fmt.Errorf("invariant K8: %d sessions stand in line, %d have debts", len(t.debts.line), len(t.debts.jobs))
	}
	return nil
}

func (t *Table) checkSession(s *Session, now lease.Instant) error {
	until, byGroup := s.Until(), s.groupCause.Load() != nil
	if until != never && (!s.opened || s.over != nil || byGroup) {
		return broken(1, s, "is valid until %v, opened %v, over %v, ended by the group %v", until, s.opened, s.over, byGroup)
	}
	if planned, ok := t.plan.ValidUntil(s.id.Number); until != never && (!ok || until > planned) {
		return broken(2, s, "is valid for %v, the plan says %v", until.Sub(now), planned.Sub(now))
	}
	if s.over != nil && len(s.claims) > 0 {
		return broken(3, s, "is over, and has %d claims", len(s.claims))
	}
	for n, c := range s.claims {
		if c.waiter != nil && n < s.requests.Lowest() || (c.waiter == nil) != (c.grant != nil) {
			return broken(4, s, "has a claim of request %d, and hears of those from %d", n, s.requests.Lowest())
		}
		if c.grant != nil && c.grant.ended() {
			return broken(3, s, "has a claim of a lease that has ended")
		}
	}
	if s.over != nil && !s.closing && !byGroup {
		return broken(6, s, "is over, and nobody tells the group")
	}
	if s.pins < 0 {
		return broken(6, s, "has heard of %d more releases than there were", -s.pins)
	}
	return nil
}

func broken(k int, s *Session, format string, args ...any) error {
	return fmt.Errorf("invariant K%d: session %d %s", k, s.id.Number, fmt.Sprintf(format, args...))
}
