package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/membership"
)

// Two of three nodes were configured for three voters, and one for five: the number of voters changed
// with the raft leader, and no node said why.
func TestTheRaftLeaderNamesTheNodesThatAreConfiguredOtherwise(t *testing.T) {
	t.Parallel()
	usual := membership.Settings{Voters: 3, Tick: 20 * time.Millisecond, Heartbeat: 40 * time.Millisecond, Election: 400 * time.Millisecond, MaxTTL: 5 * time.Minute}
	member := func(id string, change func(*membership.Member)) membership.Member {
		m := membership.Member{Meta: membership.Meta{Node: id, Name: "name-" + id, ClusterID: "group", Settings: usual}, State: membership.Alive}
		change(&m)
		return m
	}
	same := func(*membership.Member) {}
	fleet := []membership.Member{
		member("self", func(m *membership.Member) { m.Local = true }), member("same", same),
		member("older", func(m *membership.Member) { m.Settings = membership.Settings{} }),
		member("dead", func(m *membership.Member) { m.State, m.Settings.Voters = membership.Failed, 5 }),
		member("foreign", func(m *membership.Member) { m.ClusterID, m.Settings.Voters = "other", 5 }),
	}
	now := time.Now()
	var d drift
	for _, c := range []struct {
		after time.Duration
		fleet []membership.Member
		want  string
	}{
		{0, fleet, ""},
		{time.Hour, fleet, ""},
		{0, append(fleet, member("n5", func(m *membership.Member) { m.Settings.Voters, m.Settings.MaxTTL = 5, time.Hour })), ""}, // it may be a roll
		{driftAfter, append(fleet, member("n5", func(m *membership.Member) { m.Settings.Voters, m.Settings.MaxTTL = 5, time.Hour })),
			"name-n5 (n5): Voters 5, not 3, MaxTTL 1h0m0s, not 5m0s"},
		{driftPeriod, append(fleet, member("n5", func(m *membership.Member) { m.Settings.Voters, m.Settings.MaxTTL = 5, time.Hour })), ""}, // once
		{0, append(fleet, member("n6", func(m *membership.Member) { m.Settings.Election = time.Second })), ""},
		{driftAfter, append(fleet, member("n6", func(m *membership.Member) { m.Settings.Election = time.Second })),
			"name-n6 (n6): Timing.Election 1s, not 400ms"},
		{0, fleet, ""},
		{0, append(fleet, member("n6", func(m *membership.Member) { m.Settings.Election = time.Second })), ""},
		{driftAfter, append(fleet, member("n6", func(m *membership.Member) { m.Settings.Election = time.Second })), ""}, // too often
	} {
		now = now.Add(c.after)
		if got := d.poll(c.fleet, now); got != c.want {
			t.Errorf("after %v: %q, want %q", c.after, got, c.want)
		}
	}
	for i := range 100 {
		fleet = append(fleet, member(fmt.Sprint(100+i), func(m *membership.Member) { m.Settings.Voters = 5 }))
	}
	if text := differences(fleet); strings.Count(text, ";") != driftNodes || !strings.HasSuffix(text, "; and 92 more") {
		t.Errorf("of many: %q", text)
	}
}
