package main

// membership are defects of the plan for the group's membership. Most must be noticed by the exploration of small fleets.
func membership() []mutant {
	const plan, survey = "internal/autopilot/plan.go", "internal/autopilot/survey.go"
	return of([]mutant{
		{name: "a change is planned while the last outcome is unknown", file: plan, old: "\tcase v.Unknown:\n", new: "\tcase v.Unknown && v.Index == 0:\n"},
		{name: "a new raft leader believes what former ones knew", file: plan, old: "case v.Listening < v.Moment:", new: "case v.Listening < 0:"},
		{name: "membership changes without a majority that is heard", file: plan, old: "case v.heard < quorum(n):", new: "case v.heard < 1:"},
		{name: "a newcomer is promoted on the strength of its own life", file: plan, old: "return v.heard >= quorum(len(v.voters)+1)", new: "return v.heard+1 >= quorum(len(v.voters)+1)"},
		{name: "one voter and one standby become two voters", file: plan, old: "return len(v.ready) > 1 ||", new: "return len(v.ready) > 0 ||"},
		{name: "a group of one never grows", file: plan, old: "return len(v.ready) > 1 ||", new: "return len(v.ready) > 7 ||"},
		{name: "an only voter can't leave to its only standby", file: plan, old: "return len(v.ready) > 1 || v.staying == 0", new: "return len(v.ready) > 1"},
		{name: "a standby is promoted that was not heard lately", file: survey, old: "m.Departure == Stays && v.hears(m) &&\n", new: "m.Departure == Stays &&\n"},
		{name: "a standby is promoted before it has caught up", file: survey, old: "\t\tm.Running && m.Behind", new: "\t\tm.Behind"},
		{name: "a removal may cost the majority", file: plan, old: "if heard < quorum(len(v.voters)-1) {", new: "if heard < 1 {"},
		{name: "who is silent for a moment is given up", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return m.Heard >= v.Moment"},
		{name: "a dead voter is removed for nothing", file: plan, old: "\tdefault:\n\t\treturn Plan{}\n\t}\n\treturn v.removeVoter", new: "\t}\n\treturn v.removeVoter"},
		{name: "a dead voter is not removed for its successor", file: plan, old: "case len(v.ready) > 0 && v.staying < v.Want:", new: "case len(v.ready) > 7:"},
		{name: "two dead of five are kept", file: plan, old: "case quorum(n-v.failed) < quorum(n):", new: "case quorum(n-1) < quorum(n):"},
		{name: "a dead voter keeps others from leaving", file: plan, old: "case v.leaving > 0:", new: "case v.leaving > 7:"},
		{name: "a dead voter that was replaced stays", file: plan, old: "\tcase v.staying >= v.Want:\n", new: "\tcase v.staying >= v.Want+9:\n"},
		{name: "who leaves goes before its successor votes", file: survey, old: "\tcase m.Departure == Leaves:\n\tdefault:", new: "\tdefault:"},
		{name: "who says good-bye counts as gone", file: survey, old: "return m.Heard < v.Moment && m.Departure != Gone", new: "return m.Heard < v.Moment && m.Departure == Stays"},
		{name: "who has gone counts as heard", file: survey, old: "return m.Heard < v.Moment && m.Departure != Gone", new: "return m.Heard < v.Moment"},
		{name: "who has gone keeps its vote", file: plan, old: "\t\tv.removeGone, v.promote,", new: "\t\tv.promote,"},
		{name: "who leaves keeps its vote", file: plan, old: "v.removeFailed, v.removeLeaving,", new: "v.removeFailed,"},
		{name: "the raft leader removes itself", file: plan, old: "return m.Node != v.Self && match(m) })", new: "return match(m) })"},
		{name: "a raft leader that leaves hands over to one that leaves", file: plan, old: "m.Node != v.Self && m.Departure == Stays && v.hears(m)", new: "m.Node != v.Self && v.hears(m)"},
		{name: "a raft leader that leaves keeps its office", file: plan, old: "v.removeLeaving, v.handOver,", new: "v.removeLeaving,"},
		{name: "gossip acquits a voter", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return min(m.Heard, m.Seen) >= v.ReplaceAfter"},
		{name: "gossip condemns a voter", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return max(m.Heard, m.Seen) >= v.ReplaceAfter"},
		{name: "a silent standby keeps its place for ever", file: plan, old: "case m.Heard >= forget && m.Seen >= forget:", new: "case m.Heard >= 100*forget && m.Seen >= forget:"},
		{name: "a dead standby keeps the last from leaving", file: plan, old: "case v.staying == 0 && v.isFailed(m)", new: "case v.staying < 0 && v.isFailed(m)", suites: []string{"internal/autopilot:Typical"}},
		{name: "a dead replica is in the way of its own node", file: plan, old: "v.removeSucceeded, v.addStandby,", new: "v.addStandby,", suites: []string{"internal/autopilot:TypicalFleets"}},
		{name: "gossip removes a replica that is heard", file: plan, old: "return v.isFailed(m) && m.Succeeded", new: "return m.Succeeded", suites: []string{"internal/autopilot:TypicalFleets"}},
		{name: "a step names no membership", file: plan, old: "p.Index = in.Index", new: "p.Index = 0"},
		{name: "voters crowd in one zone", file: survey, old: "cmp.Compare(v.zones[a.Zone], v.zones[b.Zone])", new: "0*cmp.Compare(v.zones[a.Zone], v.zones[b.Zone])", suites: []string{"internal/autopilot:NoRandomHistory"}},
		{name: "a node without a disk votes before one with", file: survey, old: "-compareBool(a.Disk, b.Disk)", new: "compareBool(a.Disk, b.Disk)", suites: []string{"internal/autopilot:Spread"}},
		{name: "one voter too many is made", file: plan, old: "v.staying >= v.Want || !v.mayPromote()", new: "v.staying > v.Want || !v.mayPromote()"},
		{name: "a dead voter counts on for ever", file: survey, old: "\t\tv.failed++\n", new: "\t\tv.failed++\n\t\tv.staying++\n"},
		{name: "more follow than shall", file: plan, old: "if v.Standbys > 0 && replicas >= v.Want+v.Standbys {", new: "if v.Standbys > 0 && replicas > v.Want+v.Standbys {", suites: []string{"internal/autopilot:AsManyFollow"}},
	}, "internal/autopilot:NoHistory", "internal/autopilot")
}
