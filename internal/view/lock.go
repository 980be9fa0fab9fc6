package view

import (
	"cmp"
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

const (
	peopleMax = 100 // holders and waiters that a page of one lock names
	// ValueMax is how many bytes of a value are shown to people.
	ValueMax = 4 << 10
)

// Lock is all that is known of one lock.
type Lock struct {
	Row
	Why       []string `json:"why"`    // in words: who has it, and what a caller would wait for
	Grants    []Grant  `json:"grants"` // at most 100 of them
	Rests     []Rest   `json:"rests"`
	Queue     []Holder `json:"queue"` // in the order in which they will be served; at most 100 of them
	Here      int      `json:"calls_waiting_here"`
	Before    int      `json:"waiters_before_here"`
	Cycles    [][]Wait `json:"cycles"`
	Past      []Past   `json:"past"`
	Value     []byte   `json:"value"`
	HasValue  bool     `json:"has_value"`
	ValueSize int      `json:"value_bytes"`
	taken     int      // permits of a semaphore
}

// Grant is a grant that somebody has.
type Grant struct {
	Holder
	Held      float64 `json:"held_seconds"`
	Remaining float64 `json:"remaining_seconds"` // if the holder's node died now
}

// Rest is a place that stays taken after the end of its grant.
type Rest struct {
	Token     holdfast.Token `json:"token"`
	Remaining float64        `json:"remaining_seconds"`
}

// Wait is a caller that waits.
type Wait struct {
	Name string `json:"name"` // of the lock that it waits for
	Holder
}

// Past is a grant that is over.
type Past struct {
	Holder
	How    string  `json:"how"`
	Reason string  `json:"reason"`
	Held   float64 `json:"held_seconds"`
}

// ReadLock asks for all that is known of a lock.
func ReadLock(ctx context.Context, c *holdfast.Cluster, name string) (v Lock, err error) {
	info, err := c.Inspect(ctx, name)
	if err != nil {
		return v, err
	}
	blocked, err := c.WhyBlocked(ctx, name)
	if err != nil {
		return v, err
	}
	return OfLock(info, blocked), nil
}

// OfLock is a lock and the reason why a caller would not get it.
func OfLock(info holdfast.LockInfo, blocked holdfast.Blocked) Lock {
	v := Lock{
		Row: OfRow(info), Here: blocked.Waiting, Before: len(blocked.Before), HasValue: info.Value != nil, ValueSize: len(info.Value),
		Grants: []Grant{}, Rests: []Rest{}, Queue: []Holder{}, Cycles: [][]Wait{}, Past: []Past{},
		Value: info.Value,
	}
	for _, hold := range blocked.Holders {
		v.taken += hold.Weight
	}
	for _, hold := range blocked.Holders[:min(len(blocked.Holders), peopleMax)] {
		v.Grants = append(v.Grants, Grant{OfHolder(hold.Holder), *Seconds(hold.Held), *Seconds(hold.Remaining)})
	}
	for _, r := range blocked.Rests[:min(len(blocked.Rests), peopleMax)] {
		v.Rests = append(v.Rests, Rest{r.Token, *Seconds(r.Remaining)})
	}
	for _, w := range info.Waiters[:min(len(info.Waiters), peopleMax)] {
		v.Queue = append(v.Queue, OfHolder(w))
	}
	for _, cycle := range blocked.Cycles[:min(len(blocked.Cycles), peopleMax)] {
		waits := []Wait{}
		for _, w := range cycle {
			waits = append(waits, Wait{w.Name, OfHolder(w.Holder)})
		}
		v.Cycles = append(v.Cycles, waits)
	}
	for _, p := range info.Past {
		v.Past = append(v.Past, Past{OfHolder(p.Holder), p.How.String(), p.Reason, *Seconds(p.Held)})
	}
	v.Why = why(&v)
	return v
}

// Text is the value where it can be read, at most ValueMax bytes of it, "" where it cannot.
func (v Lock) Text() string {
	text := v.Value[:min(len(v.Value), ValueMax)]
	for i := 0; i < utf8.UTFMax && !utf8.Valid(text) && len(text) > 0 && v.ValueSize > ValueMax; i++ {
		text = text[:len(text)-1] // the end of what is shown may be within a character
	}
	if !utf8.Valid(text) {
		return ""
	}
	return string(text)
}

// why says in sentences what a caller that asks for the lock now would wait for.
func why(v *Lock) (lines []string) {
	switch {
	case len(v.Grants) == 0 && len(v.Rests) == 0 && v.Waiters == 0:
		return []string{"Nobody holds it: a caller gets it at once."}
	case v.Limit > 0:
		lines = append(lines, fmt.Sprintf("%d of %d permits are taken, by %s.", v.taken, v.Limit, Plural(v.Holders, "holder")))
	case v.Holders > 1:
		lines = append(lines, fmt.Sprintf("%s share it.", Plural(v.Holders, "holder")))
	}
	if len(v.Grants) > 0 {
		g := v.Grants[0]
		since := "for longer than this node remembers"
		if g.Held > 0 {
			since = "for " + Words(g.Held)
		}
		lines = append(lines, fmt.Sprintf("%s has held it %s, with token %d. If that node died now, the lock would be free in about %s.",
			g.Who(), since, g.Token, Words(g.Remaining)))
	}
	for _, r := range v.Rests {
		lines = append(lines, fmt.Sprintf("A place stays taken for about %s more, though its holder is gone (minimum hold time or lock delay).", Words(r.Remaining)))
	}
	switch {
	case v.Here > 0:
		lines = append(lines, fmt.Sprintf("Calls of this node that wait: %s. Waiters that are served before the first of them: %s.", Count(v.Here), Count(v.Before)))
	case v.Waiters > 0:
		lines = append(lines, fmt.Sprintf("%s in the queue: a new caller of the same priority is served last.", Plural(v.Waiters, "waiter")))
	}
	if len(v.Cycles) > 0 {
		lines = append(lines, "Deadlock: callers wait for each other in a cycle. One of them must give up, or lose a lock.")
	}
	return lines
}

// Who names a holder for people.
func (h Holder) Who() string {
	name := cmp.Or(h.Node, h.NodeID)
	if h.Label != "" {
		name += " (" + h.Label + ")"
	}
	return name
}
