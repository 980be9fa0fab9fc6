// Package report tells people what a run has shown.
package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
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
	line("run", "seed %d, %d replicas, %d spare machines, %d clients, %d voters, TTL %v and %v, faults for %v, %v in all",
		v.Run.Seed, v.Run.Nodes-v.Run.Spares-v.Run.Clients, v.Run.Spares, v.Run.Clients, v.Run.Voters, v.Run.TTL, v.Run.Long, v.Run.Duration, f.Took.Round(time.Second))
	line("members", "%s", members(v.Run))
	if v.Run.Bounded() {
		line("replicas", "%d at most: other nodes are clients meanwhile", v.Run.Replicas)
	}
	if n := v.Run.SnapshotEvery; n > 0 {
		line("snapshots", "every %d commands", n)
	}
	for _, s := range v.Run.Skipped {
		line("skipped", "%s", s)
	}
	line("faults", "%d: %s", f.FaultsTotal(), f.Names())
	n := f.Seen
	line("processes", "%d deaths, %d raft leaders in office; well %.0f %% of their time, a majority %.0f %%, stood still for %v together",
		f.Deaths, f.Terms, 100*f.WellShare, 100*f.QuorumShare, f.Stalled.Round(time.Second))
	line("calls", "%d for locks, %d grants, %d releases, %d leases expired, %d ended otherwise", n.Calls, n.Grants, n.Released, n.Expired, n.Ended)
	line("gap", "a fit node among a fit majority was not served for %v at most", f.Unserved.Round(time.Millisecond))
	line("asked", "%d tokens verified, %d looks at a queue, %d values set, %d jobs run once", n.Verified, n.Looked, n.Sets, n.Runs)
	line("for long", "%d grants with a TTL of a minute or more, %d nodes revoked", n.Longs, n.Revoked)
	line("kinds", "%d sets had together, %d tenures of leaders, %d minimum hold times, %d lock delays, %d checkpoints, %d freed by force",
		n.Wholes, n.Tenures, n.MinHolds, n.Delays, f.Checkpoints, n.Freed)
	line("told", "%d changes to those who watch, %d times that some are missing, %d leaders and vacancies to those who observe", n.Told-n.Resyncs, n.Resyncs, n.Observed)
	line("ledger", "guarded: %d entries, %d updates lost, %d stale writes refused; unguarded twin: %d entries, %d updates lost",
		f.Fenced, f.FencedLost, f.Refused, f.Unfenced, f.UnfencedLost)
	line("recovered", "beside the group that lived on: %d of its holders had valid leases, and were shut out by their tokens", f.ShutOut)
	line("put back", "disks as of different moments: %d nodes found that theirs is no replica's of the group, and ended", f.FoundOut)
	line("lateness", "%d grants after a lost lease, with a majority or without: %s", n.Late.Count, n.Late.String())
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
