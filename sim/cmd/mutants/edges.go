package main

// shell are defects of the root package, which carries out what the core decides. Its tests run real nodes.
func shell() []mutant {
	return of([]mutant{
		{name: "validity of the first grant counts from the reply", file: "keeper.go", old: "first := s.first\n", new: "first := k.c.clock.Now()\n"},
		{name: "validity of a renewal counts from the reply", file: "keeper.go", old: "k.plan.Renewed(s.id.Number, sent, k.c.clock.Now())", new: "k.plan.Renewed(s.id.Number, k.c.clock.Now(), k.c.clock.Now())"},
		{name: "a lease that lapsed is renewed", file: "session.go", old: "\t\tif lease.Instant(old) == never {\n\t\t\treturn false\n\t\t}\n", new: ""},
		{name: "the group's word does not end a lease at once", file: "session.go", old: "\ts.verdict.CompareAndSwap(nil, &cause)\n\ts.horizon.Store(int64(never))\n", new: "\ts.verdict.CompareAndSwap(nil, &cause)\n"},
		{name: "a call that gave up unheard leaves its session", file: "lock.go", old: "\t\tc.keeper.discard(s)\n", new: "", suites: []string{"root:Unheard"}},
		{name: "a request that is over stays open", file: "lock.go", old: "\t\t\tc.giveUp(s, request, false) // the session may live on", new: "\t\t\t// the session may live on", suites: []string{"root:ASnapshotShows"}},
		{name: "Valid does not look at the clock", file: "lease.go", old: "if l.c.clock.Now() < until {", new: "if until != never {", suites: []string{"root:Isolated|Suspended"}},
		{name: "a grant wakes nobody", file: "dispatch.go", old: "\t\ts.granted(e.Request, e.Token)\n", new: "", suites: []string{"root:Waiters"}},
		{name: "a restored replica knows how old renewals are", file: "expirer.go", old: "x.table.Renewed(s.ID, s.Renewed, s.TTL, now)", new: "x.table.Renewed(s.ID, s.Renewed, s.TTL, now.Add(-s.TTL))", suites: []string{"root:StartsEverySessionAnew|RestartedReplica"}},
		{name: "only what the raft leader applied is timed", file: "expirer.go", old: "\t\tx.table.Renewed(e.Session, e.Index, e.TTL, now)\n", new: "\t\tif g, _ := x.c.proposer.current(); g != nil && g.IsRaftLeader() {\n\t\t\tx.table.Renewed(e.Session, e.Index, e.TTL, now)\n\t\t}\n", suites: []string{"root:DeadHolder"}},
		{name: "sessions are not renewed", file: "keeper.go", old: "\t\t\t\tk.keepalive(ctx, batch)\n", new: "\t\t\t\t_ = batch\n", suites: []string{"root:MaxHoldEndsItsLeaseAndNoOther"}},
		{name: "a call that gave up is not withdrawn", file: "lock.go", old: "\t\tc.keeper.clean.withdraw(s, request)\n", new: "\t\ts.finish(request)\n", suites: []string{"root:DeadWaiter|TheContextOfAcquire|TestRandomFaults"}},
		{name: "a forced release is not told to the holder", file: "dispatch.go", old: "\t\tk.revoke(s, e.Request, fmt.Errorf(\"%w: %s\", ErrForced, e.Detail))\n", new: "", suites: []string{"root:ForceRelease"}},
		{name: "the outcome of a keepalive is not looked at", file: "keeper.go", old: "if out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number) {", new: "if out.Code != fsm.CodeOK {", suites: []string{"root:DoesNotKnow"}},
		{name: "a snapshot hides grants from those who wait", file: "dispatch.go", old: "\t\t\t\ts.granted(request, token)\n", new: "\t\t\t\t_ = token\n", suites: []string{"root:ASnapshotTells"}},
		{name: "Close frees nothing", file: "keeper.go", old: "\t\tk.clean.close(s, !errors.Is(cause, ErrReleased))\n", new: "\t\t_ = errors.Is(cause, ErrReleased)\n", suites: []string{"root:CloseGives|CallsEnd|TestRandomFaults"}},
	}, "root:Validity")
}

// around are defects of what the root stands on.
func around() []mutant {
	return of([]mutant{
		{name: "wall clock for monotonic", file: "internal/clock/clock.go", old: "return start + lease.Instant(awake+known.slept)", new: "return start + lease.Instant(wall)", suites: []string{"internal/clock"}},
		{name: "sleep of the machine does not count", file: "internal/clock/clock.go", old: "next.slept = max(next.slept, total-s.asleep)", new: "next.slept = max(next.slept, 0*total)", suites: []string{"internal/clock"}},
		{name: "skip the flush", file: "internal/consensus/logstore.go", old: "content := len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot)", new: "content := !raftpb.IsEmptySnapshot(u.Snapshot)", suites: []string{"internal/consensus:Acknowledged"}},
		{name: "a vote is not saved", file: "internal/consensus/logstore.go", old: "u.Term == s.saved.Term && u.Vote == s.saved.Vote {", new: "u.Term == s.saved.Term {", suites: []string{"internal/consensus:NeverKeptBack"}},
		{name: "an older process of a node is heard", file: "internal/consensus/roster.go", old: "return known == 0 || next == known || next>>RunBits > known>>RunBits", new: "return true", suites: []string{"root:Copies|PutBack"}},
		{name: "a vote is given twice", file: "internal/forming/voter.go", old: "case f.vote == Vote{}, f.vote.Candidate == m.From && f.vote.Ballot < m.Ballot:", new: "case f.vote.Ballot < m.Ballot || f.vote.Candidate != m.From:", suites: []string{"internal/forming"}},
		{name: "a group is formed without all votes", file: "internal/forming/forming.go", old: "\tif missing > 0 {", new: "\tif missing > 1 {", suites: []string{"internal/forming"}},
		{name: "an old vote counts", file: "internal/forming/forming.go", old: "if !ok || in.Now.Sub(got.at) >= votesFresh {", new: "if !ok {", suites: []string{"internal/forming"}},
		{name: "a vote is given away while a group is in sight", file: "internal/forming/voter.go", old: "case f.cfg.Bootstrap < 1, len(v.groups) > 0, f.ballot != 0,", new: "case f.cfg.Bootstrap < 1, f.ballot != 0,", suites: []string{"internal/forming"}},
		{name: "membership changes without a healthy majority", file: "internal/autopilot/autopilot.go", old: "if !quorum(in.healthy(), len(in.Voters)) {", new: "if len(in.Voters) == 0 {", suites: []string{"internal/autopilot"}},
		{name: "a change may cost the majority", file: "internal/autopilot/autopilot.go", old: "c.Kind != None && in.keepsQuorum(c) {", new: "c.Kind != None {", suites: []string{"internal/autopilot"}},
		{name: "a failed voter goes before its successor is there", file: "internal/autopilot/autopilot.go", old: "len(in.present()) < in.Want && !slices", new: "len(in.present()) < 0 && !slices", suites: []string{"internal/autopilot"}},
		{name: "a guard admits a stale token", file: "fence/guard.go", old: "if t < highest || once && t == highest {", new: "if t+1 < highest || once && t == highest {", suites: []string{"fence", "model"}},
		{name: "a token is used once and again", file: "fence/guard.go", old: "if t < highest || once && t == highest {", new: "if t < highest {", suites: []string{"fence"}},
		{name: "a node's identity is not synced", file: "internal/datadir/identity.go", old: "\t\terr = f.Sync()\n", new: "", suites: []string{"internal/datadir"}},
	})
}
