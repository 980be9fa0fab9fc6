// Package report tells people what a run has shown: as text, and as one page with a picture of it.
package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
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
	line("run", "seed %d, %d processes, %d spare machines, %d voters, TTL %v and %v, faults for %v, %v in all",
		v.Run.Seed, v.Run.Nodes-v.Run.Spares, v.Run.Spares, v.Run.Voters, v.Run.TTL, v.Run.Long, v.Run.Duration, f.Took.Round(time.Second))
	line("members", "%s", members(v.Run))
	if n := v.Run.SnapshotEvery; n > 0 {
		line("snapshots", "every %d commands", n)
	}
	for _, s := range v.Run.Skipped {
		line("skipped", "%s", s)
	}
	line("faults", "%d: %s", f.FaultsTotal(), f.Names())
	line("processes", "%d deaths, %d raft leaders in office; well %.0f %% of their time, a majority %.0f %%, stood still for %v together",
		f.Deaths, f.Leaders, 100*f.WellShare, 100*f.QuorumShare, f.Stalled.Round(time.Second))
	line("calls", "%d for locks, %d grants, %d releases, %d leases expired, %d ended otherwise", f.Calls, f.Grants, f.Releases, f.Expired, f.Ended)
	line("gap", "a fit node among a fit majority was not served for %v at most", f.Unserved.Round(time.Millisecond))
	line("asked", "%d tokens verified, %d looks at a queue, %d values set, %d jobs run once", f.Verified, f.Looked, f.Values, f.Runs)
	k := f.Kinds
	line("for long", "%d grants with a TTL of a minute or more, %d nodes revoked", k.Longs, k.Revoked)
	line("kinds", "%d sets had together, %d tenures of leaders, %d minimum hold times, %d lock delays, %d checkpoints, %d freed by force", k.Sets, k.Tenures, k.MinHolds, k.Delays, k.Checkpoints, k.Forced)
	line("told", "%d changes to those who watch, %d times that some are missing, %d leaders and vacancies to those who observe", k.Told-k.Resyncs, k.Resyncs, k.Observed)
	line("ledger", "guarded: %d entries, %d updates lost, %d stale writes refused; unguarded twin: %d entries, %d updates lost",
		f.Fenced, f.FencedLost, f.Refused, f.Unfenced, f.UnfencedLost)
	b.WriteString(histogram(v.Waits))
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
	for _, why := range v.Vacuous {
		line("vacuous", "%s", why)
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

// members says how the fleet keeps its members.
func members(r story.Run) string {
	disks, after := "with disks", "replaced after the default time"
	if r.Diskless {
		disks = "without disks"
	}
	if r.ReplaceAfter > 0 {
		after = fmt.Sprintf("replaced after %v", r.ReplaceAfter)
	}
	return disks + ", " + after
}

// Headline is the result in one line.
func Headline(v story.Verdict) string {
	switch {
	case len(v.Violations) > 0:
		return fmt.Sprintf("FAILED: %d violations", len(v.Violations))
	case len(v.Vacuous) > 0:
		return "FAILED: the run was vacuous: " + strings.Join(v.Vacuous, "; ")
	}
	return "passed: no violations"
}

// lateness counts how late locks were granted after a lost lease, a majority being well, and finds
// the latest.
func lateness(waits []story.Wait) (h history.Histogram, latest story.Wait, excused int) {
	for _, w := range waits {
		if w.Excused {
			excused++
			continue
		}
		h.Add(w.Late)
		if w.Late >= latest.Late {
			latest = w
		}
	}
	return h, latest, excused
}

// bar is one bar of a histogram.
type bar struct {
	name  string
	count int
}

// barsOf returns the bars of a histogram from the first to the last that is not empty.
func barsOf(h history.Histogram) (all []bar) {
	last := 0
	for i, n := range h.Buckets {
		if n > 0 {
			last = i
		}
		if len(all) > 0 || n > 0 {
			all = append(all, bar{fmt.Sprint("< ", time.Millisecond<<i), int(n)})
		}
	}
	return all[:max(0, len(all)-(len(h.Buckets)-1-last))]
}

// histogram is the lateness as text.
func histogram(waits []story.Wait) string {
	h, latest, excused := lateness(waits)
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s %d grants after a lost lease with a majority, at most %v late; %d without one\n", "lateness", h.Count, latest.Late.Round(time.Millisecond), excused)
	for _, x := range barsOf(h) {
		fmt.Fprintf(&b, "%-11s %9s %5d %s\n", "", x.name, x.count, strings.Repeat("#", (x.count*40+int(h.Count)-1)/int(h.Count)))
	}
	return b.String()
}
