package httpstatus

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

const (
	peopleMax = 100     // holders and waiters that a page of one lock names
	valueMax  = 4 << 10 // bytes of a value that a page shows
)

// lockView is all that is known of one lock.
type lockView struct {
	lockRow
	Why       []string     `json:"why"` // in words: who has it, and what a caller would wait for
	Grants    []grantView  `json:"grants"`
	Rests     []restView   `json:"rests"`
	Queue     []holderView `json:"queue"` // in the order in which they will be served; at most 100 of them
	Here      int          `json:"calls_waiting_here"`
	Before    int          `json:"waiters_before_here"`
	Cycles    [][]waitView `json:"cycles"`
	Past      []pastView   `json:"past"`
	Value     []byte       `json:"value"`
	HasValue  bool         `json:"has_value"`
	ValueSize int          `json:"value_bytes"`
}

// grantView is a grant that somebody has.
type grantView struct {
	holderView
	Held      float64 `json:"held_seconds"`
	Remaining float64 `json:"remaining_seconds"` // if the holder's node died now
}

type restView struct {
	Token     holdfast.Token `json:"token"`
	Remaining float64        `json:"remaining_seconds"`
}

// waitView is a caller that waits.
type waitView struct {
	Name string `json:"name"` // of the lock that it waits for
	holderView
}

// pastView is a grant that is over.
type pastView struct {
	holderView
	How    string  `json:"how"`
	Reason string  `json:"reason"`
	Held   float64 `json:"held_seconds"`
}

func (h *handler) readLock(ctx context.Context, query url.Values) (any, error) {
	name := query.Get("name")
	info, err := h.c.Inspect(ctx, name)
	if err != nil {
		return lockView{}, err
	}
	blocked, err := h.c.WhyBlocked(ctx, name)
	if err != nil {
		return lockView{}, err
	}
	return viewLock(info, blocked), nil
}

func viewLock(info holdfast.LockInfo, blocked holdfast.Blocked) lockView {
	v := lockView{
		lockRow: viewRow(info), Here: blocked.Waiting, Before: len(blocked.Before), HasValue: info.Value != nil, ValueSize: len(info.Value),
		Grants: []grantView{}, Rests: []restView{}, Queue: []holderView{}, Cycles: [][]waitView{}, Past: []pastView{},
		Value: info.Value[:min(len(info.Value), valueMax)],
	}
	for _, hold := range blocked.Holders[:min(len(blocked.Holders), peopleMax)] {
		v.Grants = append(v.Grants, grantView{viewHolder(hold.Holder), *seconds(hold.Held), *seconds(hold.Remaining)})
	}
	for _, r := range blocked.Rests[:min(len(blocked.Rests), peopleMax)] {
		v.Rests = append(v.Rests, restView{r.Token, *seconds(r.Remaining)})
	}
	for _, w := range info.Waiters[:min(len(info.Waiters), peopleMax)] {
		v.Queue = append(v.Queue, viewHolder(w))
	}
	for _, cycle := range blocked.Cycles[:min(len(blocked.Cycles), peopleMax)] {
		waits := []waitView{}
		for _, w := range cycle {
			waits = append(waits, waitView{w.Name, viewHolder(w.Holder)})
		}
		v.Cycles = append(v.Cycles, waits)
	}
	for _, p := range info.Past {
		v.Past = append(v.Past, pastView{viewHolder(p.Holder), p.How.String(), p.Reason, *seconds(p.Held)})
	}
	v.Why = why(&v)
	return v
}

// Text is the value where it can be read, "" where it cannot.
func (v lockView) Text() string {
	text := v.Value
	for i := 0; i < utf8.UTFMax && !utf8.Valid(text) && len(text) > 0 && v.ValueSize > valueMax; i++ {
		text = text[:len(text)-1] // the end of what is shown may be within a character
	}
	if !utf8.Valid(text) {
		return ""
	}
	return string(text)
}

// why says in sentences what a caller that asks for the lock now would wait for.
func why(v *lockView) (lines []string) {
	switch {
	case len(v.Grants) == 0 && len(v.Rests) == 0 && v.Waiters == 0:
		return []string{"Nobody holds it: a caller gets it at once."}
	case v.Limit > 0:
		taken := 0
		for _, g := range v.Grants {
			taken += g.Weight
		}
		lines = append(lines, fmt.Sprintf("%d of %d permits are taken, by %s.", taken, v.Limit, plural(v.Holders, "holder")))
	case v.Holders > 1:
		lines = append(lines, fmt.Sprintf("%s share it.", plural(v.Holders, "holder")))
	}
	if len(v.Grants) > 0 {
		g := v.Grants[0]
		since := "for longer than this node remembers"
		if g.Held > 0 {
			since = "for " + words(g.Held)
		}
		lines = append(lines, fmt.Sprintf("%s has held it %s, with token %d. If that node died now, the lock would be free in about %s.",
			g.Who(), since, g.Token, words(g.Remaining)))
	}
	for _, r := range v.Rests {
		lines = append(lines, fmt.Sprintf("A place stays taken for about %s more, though its holder is gone (minimum hold time or lock delay).", words(r.Remaining)))
	}
	switch {
	case v.Here > 0:
		lines = append(lines, fmt.Sprintf("Calls of this node that wait: %s. Waiters that are served before the first of them: %s.", group(v.Here), group(v.Before)))
	case v.Waiters > 0:
		lines = append(lines, fmt.Sprintf("%s in the queue: a new caller of the same priority is served last.", plural(v.Waiters, "waiter")))
	}
	if len(v.Cycles) > 0 {
		lines = append(lines, "Deadlock: callers wait for each other in a cycle. One of them must give up, or lose a lock.")
	}
	return lines
}

// Who names a holder for people.
func (h holderView) Who() string {
	name := cmp.Or(h.Node, h.NodeID)
	if h.Label != "" {
		name += " (" + h.Label + ")"
	}
	return name
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return group(n) + " " + noun + "s"
}

// words is a time for people: two units at most.
func words(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// onceView is what became of a Once key.
type onceView struct {
	Key    string     `json:"key"`
	State  string     `json:"state"` // "" without a key; unknown, running, finished
	Runner holderView `json:"runner"`
}

func (h *handler) readOnce(ctx context.Context, query url.Values) (any, error) {
	v := onceView{Key: query.Get("key")}
	if v.Key == "" {
		return v, nil
	}
	result, err := h.c.InspectOnce(ctx, v.Key)
	switch {
	case err != nil:
		return v, err
	case result.Finished:
		v.State = "finished"
	case result.Token != 0:
		v.State = "running"
	default:
		v.State = "unknown"
	}
	v.Runner = viewHolder(result.By)
	return v, nil
}
