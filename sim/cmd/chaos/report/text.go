// Package report tells people what a run has shown: as text, and as one page with a picture of it.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

const (
	violationsShown = 20
	eventsShown     = 40 // before the first violation
)

// Text is the report for a terminal.
func Text(v story.Verdict) string {
	var b strings.Builder
	f := v.Figures
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "%s\n", Headline(v))
	line("run", "seed %d, %d processes, %d voters, TTL %v, faults for %v, %v in all", v.Run.Seed, v.Run.Nodes, v.Run.Voters, v.Run.TTL, v.Run.Duration, f.Took.Round(time.Second))
	for _, s := range v.Run.Skipped {
		line("skipped", "%s", s)
	}
	line("faults", "%d: %s", f.FaultsTotal(), f.Names())
	line("processes", "%d deaths, %d raft leaders in office; well %.0f %% of their time, a majority %.0f %%, stood still for %v together",
		f.Deaths, f.Leaders, 100*f.WellShare, 100*f.QuorumShare, f.Stalled.Round(time.Second))
	line("calls", "%d for locks, %d grants, %d releases, %d leases expired, %d ended otherwise", f.Calls, f.Grants, f.Releases, f.Expired, f.Ended)
	line("gap", "a fit node among a fit majority was not served for %v at most", f.Unserved.Round(time.Millisecond))
	line("asked", "%d tokens verified, %d looks at a queue, %d values set", f.Verified, f.Looked, f.Values)
	line("ledger", "guarded: %d entries, %d updates lost, %d stale writes refused; unguarded twin: %d entries, %d updates lost",
		f.Fenced, f.FencedLost, f.Refused, f.Unfenced, f.UnfencedLost)
	b.WriteString(lateness(v.Waits))
	for i := range v.Run.Nodes {
		if d, ok := v.Recovery[i]; ok {
			line("recovery", "node %d served %v after the end of the faults", i, d.Round(time.Millisecond))
		} else {
			line("recovery", "node %d never served again", i)
		}
	}
	if f.Healed >= 0 {
		line("recovery", "every node was ready %v after the end of the faults", f.Healed.Round(time.Millisecond))
	} else {
		line("recovery", "not every node was ready before the run ended")
	}
	for _, why := range v.Blunt {
		line("no teeth", "%s", why)
	}
	for i, x := range v.Violations {
		if i == violationsShown {
			line("violation", "and %d more", len(v.Violations)-i)
			break
		}
		line("violation", "%v", x)
	}
	if len(v.Violations) > 0 {
		first := v.Violations[0]
		fmt.Fprintf(&b, "what came before the first one:\n")
		for _, e := range history.About(v.History, first.Lock, first.At, eventsShown) {
			fmt.Fprintf(&b, "  %v\n", e)
		}
	}
	return b.String()
}

// Headline is the result in one line.
func Headline(v story.Verdict) string {
	switch {
	case len(v.Violations) > 0:
		return fmt.Sprintf("FAILED: %d violations", len(v.Violations))
	case len(v.Blunt) > 0:
		return "FAILED: the run had no teeth: " + strings.Join(v.Blunt, "; ")
	}
	return "passed: no violations"
}

// bin is one bar of the histogram.
type bin struct {
	upTo  time.Duration // 0: everything above
	count int
}

// bins counts how late locks were granted after a lost lease, a majority being well, and finds the maximum.
func bins(waits []story.Wait) (all []bin, most story.Wait, counted, excused int) {
	for _, d := range []time.Duration{50, 100, 200, 500, 1000, 2000, 0} {
		all = append(all, bin{upTo: d * time.Millisecond})
	}
	for _, w := range waits {
		if w.Excused {
			excused++
			continue
		}
		counted++
		i := slices.IndexFunc(all, func(b bin) bool { return b.upTo == 0 || w.Late <= b.upTo })
		all[i].count++
		if w.Late >= most.Late {
			most = w
		}
	}
	return all, most, counted, excused
}

// lateness is the histogram as text.
func lateness(waits []story.Wait) string {
	all, most, counted, excused := bins(waits)
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s %d grants after a lost lease with a majority, at most %v late; %d without one\n", "lateness", counted, most.Late.Round(time.Millisecond), excused)
	for _, x := range all {
		fmt.Fprintf(&b, "%-11s %8s %5d %s\n", "", x.name(), x.count, strings.Repeat("#", (x.count*40+counted)/max(1, counted+1)))
	}
	return b.String()
}

func (b bin) name() string {
	if b.upTo == 0 {
		return "more"
	}
	return "≤ " + b.upTo.String()
}
