package main

// membership are defects of the plan for the group's membership. Most must be noticed by the
// exploration of small fleets.
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
		{name: "a removal may cost the majority", file: plan, old: "if v.without(v.voters[i]) < quorum(len(v.voters)-1) {", new: "if v.without(v.voters[i]) < 1 {"},
		{name: "many steps within a moment count on the same old news", file: plan, old: "v.Changed == 0 || m.Heard < v.Changed", new: "v.Changed >= 0", suites: []string{"internal/autopilot:LastChange", "root:TestAStandbyThatHasJustDied"}},
		{name: "who is silent for a moment is given up", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return m.Heard >= v.Moment"},
		{name: "a dead voter is removed for nothing", file: plan, old: "\tdefault:\n\t\treturn Plan{}\n\t}\n\treturn v.removeVoter", new: "\t}\n\treturn v.removeVoter"},
		{name: "a dead voter is not removed for its successor", file: plan, old: "case len(v.ready) > 0 && v.staying < v.Want:", new: "case len(v.ready) > 7:"},
		{name: "two dead of five are kept", file: plan, old: "case quorum(n-v.failed) < quorum(n):", new: "case quorum(n-1) < quorum(n):"},
		{name: "a dead voter keeps others from leaving", file: plan, old: "case v.leaving > 0:", new: "case v.leaving > 7:"},
		{name: "a dead voter that was replaced stays", file: plan, old: "\tcase v.staying >= v.Want:\n", new: "\tcase v.staying >= v.Want+9:\n"},
		{name: "who leaves goes before its successor votes", file: survey, old: "\tcase m.Departure == Leaves:\n\tdefault:", new: "\tdefault:"},
		{name: "who says good-bye counts as gone", file: survey, old: "return m.Heard < v.Moment && m.Departure != Gone", new: "return m.Heard < v.Moment && m.Departure == Stays"},
		{name: "who has gone counts as heard", file: survey, old: "return m.Heard < v.Moment && m.Departure != Gone", new: "return m.Heard < v.Moment"},
		{name: "who has gone keeps its vote", file: plan, old: "\t\tv.removeGone, v.removeReplaced, v.promote,", new: "\t\tv.removeReplaced, v.promote,"},
		{name: "who leaves keeps its vote", file: plan, old: "v.removeFailed, v.removeLeaving,", new: "v.removeFailed,"},
		{name: "the raft leader removes itself", file: plan, old: "return m.Node != v.Self && match(m) })", new: "return match(m) })"},
		{name: "a raft leader that leaves hands over to one that leaves", file: plan, old: "m.Node != v.Self && m.Departure == Stays && v.hears(m)", new: "m.Node != v.Self && v.hears(m)"},
		{name: "a raft leader that leaves keeps its office", file: plan, old: "v.removeLeaving, v.handOver,", new: "v.removeLeaving,"},
		{name: "gossip acquits a voter", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return min(m.Heard, m.Seen) >= v.ReplaceAfter"},
		{name: "gossip condemns a voter", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return max(m.Heard, m.Seen) >= v.ReplaceAfter"},
		{name: "a silent standby keeps its place for ever", file: plan, old: "case m.Heard >= forget && m.Seen >= forget:", new: "case m.Heard >= 100*forget && m.Seen >= forget:"},
		{name: "a dead standby keeps the last from leaving", file: plan, old: "case v.staying == 0 && v.isLost(m)", new: "case v.staying < 0 && v.isLost(m)", suites: []string{"internal/autopilot:Typical"}},
		{name: "a dead replica is in the way of its own node", file: plan, old: "v.removeSucceeded, v.addStandby,", new: "v.addStandby,", suites: []string{"internal/autopilot:TypicalFleets"}},
		{name: "gossip removes a replica that is heard", file: plan, old: "return v.isFailed(m) && m.Succeeded", new: "return m.Succeeded", suites: []string{"internal/autopilot:TypicalFleets"}},
		{name: "a step names no membership", file: plan, old: "p.Index = in.Index", new: "p.Index = 0"},
		{name: "voters crowd in one zone", file: survey, old: "cmp.Compare(v.zones[a.Zone], v.zones[b.Zone])", new: "0*cmp.Compare(v.zones[a.Zone], v.zones[b.Zone])", suites: []string{"internal/autopilot:NoRandomHistory"}},
		{name: "no newcomer waits for one of another zone", file: survey, old: "if len(v.voters) == 2 || v.failed > 0", new: "if len(v.voters) > 0 || v.failed > 0", suites: []string{"internal/autopilot:Spread"}},
		{name: "newcomers vote before the dead have gone", file: plan, old: "v.removeGone, v.removeReplaced, v.promote,", new: "v.removeGone, v.promote,", suites: []string{"internal/autopilot:SuccessorsThatDie"}},
		{name: "a new group chooses its voters among the first", file: survey, old: "v.replicas < v.Expected &&", new: "v.replicas < 0*v.Expected &&", suites: []string{"internal/autopilot:Spread"}},
		{name: "a node without a disk votes before one with", file: survey, old: "-compareBool(a.Disk, b.Disk)", new: "compareBool(a.Disk, b.Disk)", suites: []string{"internal/autopilot:Spread"}},
		{name: "one voter too many is made", file: plan, old: "v.staying >= v.Want || !v.mayPromote()", new: "v.staying > v.Want || !v.mayPromote()"},
		{name: "a dead voter counts on for ever", file: survey, old: "\t\tv.failed++\n", new: "\t\tv.failed++\n\t\tv.staying++\n"},
		{name: "more follow than shall", file: plan, old: "if v.Standbys > 0 && replicas >= v.Want+v.Standbys {", new: "if v.Standbys > 0 && replicas > v.Want+v.Standbys {", suites: []string{"internal/autopilot:AsManyFollow"}},
	}, "internal/autopilot:NoHistory", "internal/autopilot")
}

// hearings are defects of what a raft leader knows of the others, and of whom it tells what. The
// model runs the very code, and the planner on it.
func hearings() []mutant {
	const dir = "internal/hearing/"
	const silence, leader, news = dir + "silence.go", dir + "leader.go", dir + "news.go"
	const survey = "internal/autopilot/survey.go"
	return of([]mutant{
		{name: "what a raft leader heard itself is forgotten with its term", file: silence, old: "max(s.since, before[replica])", new: "max(s.since, 0*before[replica])", suites: []string{"internal/hearing"}},
		{name: "that a voter is heard again is said with the next report", file: silence, old: " && !h.heardAgain(members, now) {", new: " {", suites: []string{"internal/hearing"}},
		{name: "what is applied after the election is not news", file: silence, old: "\t\tif h.over[node] {", new: "\t\tif h.over[node] && known && last == 0 {", suites: []string{"internal/hearing"}},
		{name: "a silence of long ago goes on", file: silence, old: "ok && now-s.said <= lease.Instant(staleAfter)", new: "ok", suites: []string{"internal/hearing"}},
		{name: "a replica that was never heard is silent for ever", file: silence, old: "\t\t\th.last[replica] = now\n", new: "\t\t\th.last[replica] = 0\n"},
		{name: "an unknown outcome of a change is taken for none", file: leader, old: "l.unknown = out == Unknown ||", new: "l.unknown = out > Unknown ||", suites: []string{"internal/hearing"}},
		{name: "who leaves is let go on the word of one that died a moment ago", file: leader, old: "if !before[replica] {", new: "if !before[replica] && now < 0 {", suites: []string{"internal/hearing"}},
		{name: "who is taken in is not told", file: news, old: "\t\t\tone.Kind = Welcome\n", new: "\t\t\tcontinue\n"},
		{name: "who was removed while away is not told", file: news, old: "m.Phase == Runs && !in, now)", new: "m.Phase == Idle && !in, now)"},
		{name: "a voter that is silent for a third of its time is given up", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return m.Heard >= v.ReplaceAfter/3"},
		{name: "a voter that gossip does not see is given up", file: survey, old: "return m.Heard >= v.ReplaceAfter", new: "return max(m.Heard, m.Seen) >= v.ReplaceAfter"},
	}, "model", "internal/hearing")
}
