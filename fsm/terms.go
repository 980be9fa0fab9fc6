package fsm

import "time"

// Terms are the terms of a request, and of its grant. The request carries them, and so do its
// claim, its events and the view of its holder: a new term is a field here, a line in those methods
// below whose messages show it, and the one place that acts on it.
type Terms struct {
	Label    string
	Delay    time.Duration // whole milliseconds: what is lost, not released, rests for so long
	Priority int32         // higher first
	Limit    uint32        // Permit only. CodeLimitMismatch if a name is in use with another one: that of Exclusive and Shared is 0
	Weight   uint32        // Permit only: 1 to Limit; in a request 0 counts as 1
	Mode     Mode
	Election bool // the holder is the leader of an election, as its events say. Exclusive only, not for a set or Once key
}

// valid says whether terms are in bounds. Those of a request of several names, and of a Once key,
// are plain.
func (t *Terms) valid(name string, set bool) bool {
	if !validLabel(t.Label) || t.Delay > RestMax {
		return false
	}
	plain := t.Mode == Exclusive && !set
	if t.Election && (!plain || isOnce(name)) || isOnce(name) && !plain || set && t.Mode == Permit {
		return false
	}
	if t.Mode == Permit {
		return t.Limit >= 1 && t.Limit <= LimitMax && t.Weight <= t.Limit
	}
	return t.Mode <= Permit && t.Limit == 0 && t.Weight <= 1
}

// remembered is what is left of terms when the grant is past.
func (t *Terms) remembered() Terms { return Terms{Label: t.Label, Mode: t.Mode, Weight: t.Weight} }

// ofAcquire are the fields in a request; Delay comes later there.
func (t *Terms) ofAcquire(f *codec) {
	narrow(f, 7, &t.Mode)
	narrow(f, 8, &t.Limit)
	narrow(f, 9, &t.Weight)
	f.signed(10, &t.Priority)
	f.text(11, &t.Label)
}

// ofClaim are the fields in a snapshot; Delay comes later there.
func (t *Terms) ofClaim(f *codec) {
	narrow(f, 9, &t.Mode)
	narrow(f, 10, &t.Weight)
	narrow(f, 11, &t.Limit)
	f.signed(12, &t.Priority)
	f.text(13, &t.Label)
	f.bool(20, &t.Election)
}

// ofHolder are the fields in the outcome of a refused request.
func (t *Terms) ofHolder(f *codec) {
	f.text(4, &t.Label)
	narrow(f, 6, &t.Mode)
	narrow(f, 7, &t.Weight)
	f.signed(8, &t.Priority)
	narrow(f, 10, &t.Limit)
	f.millis(11, &t.Delay)
	f.bool(12, &t.Election)
}
