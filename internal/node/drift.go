package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	driftAfter  = time.Minute      // a roll that changes the configuration makes nodes differ for a while
	driftPeriod = 10 * time.Minute // between two lines
	driftNodes  = 8                // named in a line
)

// drift finds the nodes of the group whose configuration is not this node's. The raft leader alone
// runs it, so a fleet has one line for a difference.
type drift struct {
	seen  string    // the difference of the last poll
	since time.Time // of that one
	told  bool
	lines sparse.Lines
}

// poll returns what differs, when the log is to say so; "": nothing now.
func (d *drift) poll(members []membership.Member, now time.Time) string {
	found := differences(members)
	if found != d.seen {
		d.seen, d.since, d.told = found, now, false
	}
	if found == "" || d.told || now.Sub(d.since) < driftAfter {
		return ""
	}
	d.lines.Most, d.lines.Period = 1, driftPeriod
	if _, ok := d.lines.Take(now); !ok {
		return ""
	}
	d.told = true
	return found
}

// differences names the nodes of this node's group that are configured otherwise, and in what.
func differences(members []membership.Member) string {
	local := slices.IndexFunc(members, func(m membership.Member) bool { return m.Local })
	if local < 0 {
		return ""
	}
	own, others := members[local], []string(nil)
	for _, m := range members {
		if m.Local || !m.Here() || m.ClusterID != own.ClusterID || m.Settings == (membership.Settings{}) {
			continue
		}
		if in := unlike(m.Settings, own.Settings); in != "" {
			others = append(others, fmt.Sprintf("%s (%s): %s", m.Name, m.Node, in))
		}
	}
	slices.Sort(others)
	if more := len(others) - driftNodes; more > 0 {
		others = append(others[:driftNodes], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(others, "; ")
}

// unlike says in what a configuration is not the own one.
func unlike(its, own membership.Settings) string {
	var parts []string
	add := func(what string, its, own any) {
		if its != own {
			parts = append(parts, fmt.Sprintf("%s %v, not %v", what, its, own))
		}
	}
	add("Voters", its.Voters, own.Voters)
	if its.Replicas > 0 { // an earlier version has none
		add("Replicas", its.Replicas, own.Replicas)
	}
	add("Timing.Tick", its.Tick, own.Tick)
	add("Timing.Heartbeat", its.Heartbeat, own.Heartbeat)
	add("Timing.Election", its.Election, own.Election)
	add("MaxTTL", its.MaxTTL, own.MaxTTL)
	return strings.Join(parts, ", ")
}
