package main

// shell are defects of the root package, which carries out what the core decides. Its tests run
// real nodes.
func shell() []mutant {
	const expiry = "internal/expiry/table.go"
	return of([]mutant{
		{name: "a request that is over stays open", file: "lock.go", old: "\t\t\tcall.GiveUp(false) // the session may live on", new: "\t\t\t// the session may live on", suites: []string{"root:ASnapshotShows"}},
		{name: "Valid does not look at the clock", file: "lease.go", old: "if l.c.clock.Now() < until {", new: "if until != 0 {", suites: []string{"root:Isolated|Suspended"}},
		{name: "a restored replica knows how old renewals are", file: expiry, old: "t.sessions.Renewed(s.ID, s.Renewed, s.TTL, now)", new: "t.sessions.Renewed(s.ID, s.Renewed, s.TTL, now.Add(-s.TTL))", suites: []string{"internal/expiry", "model"}},
		{name: "only what the raft leader applied is timed", file: "dispatch.go", old: "due = l.c.times.Note(e, now) || due", new: "if g, _ := l.c.proposer.Current(); g != nil && g.IsRaftLeader() {\n\t\t\tdue = l.c.times.Note(e, now) || due\n\t\t}", suites: []string{"root:DeadHolder"}},
		{name: "keepalives are not sent", file: "keeper.go", old: "func(ctx context.Context) { k.keepalive(ctx, keepalive) })", new: "func(context.Context) { k.table.Unanswered(keepalive) })", suites: []string{"root:MaxHoldEndsItsLeaseAndNoOther"}},
		{name: "debts are not paid", file: "keeper.go", old: "\tif start {\n\t\tk.c.goRun(k.clean)\n\t}\n", new: "\t_ = start\n", suites: []string{"root:CloseGives", "sim/virtual:TestRandomFaults"}},
		{name: "the lease of a run outlives its function", file: "once.go", old: "\tif !l.grant.End(ErrReleased) {\n\t\treturn false, l.Err()\n\t}\n\tctx, span := ", new: "\tdefer l.grant.End(ErrReleased)\n\tctx, span := ", suites: []string{"root:TheLeaseOfARun"}},
		{name: "each call wakes the goroutine of the hooks", file: "events.go", old: "\t\t\tcalls = nil\n\t\tcase <-h.many", new: "\t\tcase <-h.many", suites: []string{"root:CallsThatFollow"}},
		{name: "many calls wait for the lull", file: "events.go", old: "len(h.calls) >= hooksMany", new: "len(h.calls) >= 2*hooksMany", suites: []string{"root:CallsThatFollow"}},
		{name: "a wake during a step is lost", file: "internal/loop/loop.go", old: "\t\ttimer.Reset(max(PauseMin, l.take(ctx)))\n", new: "\t\ttimer.Reset(max(PauseMin, l.take(ctx)))\n\t\tselect {\n\t\tcase <-l.wakeup:\n\t\tdefault:\n\t\t}\n", suites: []string{"internal/loop"}},
		{name: "a raft leader lets its group serve when it pleases", file: "internal/hearing/leader.go", old: "return (len(s.Members.Voters)", new: "return s.Info.Born || (len(s.Members.Voters)", suites: []string{"root:TheGroupServesWhen"}},
	}, "root:Validity")
}

// around are defects of what the root stands on.
func around() []mutant {
	return of([]mutant{
		{name: "wall clock for monotonic", file: "internal/clock/clock.go", old: "return start + lease.Instant(awake+known.slept)", new: "return start + lease.Instant(wall)", suites: []string{"internal/clock"}},
		{name: "sleep of the machine does not count", file: "internal/clock/clock.go", old: "next.slept = max(next.slept, total-s.asleep)", new: "next.slept = max(next.slept, 0*total)", suites: []string{"internal/clock"}},
		{name: "skip the flush", file: "internal/consensus/logstore.go", old: "content := len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot)", new: "content := !raftpb.IsEmptySnapshot(u.Snapshot)", suites: []string{"internal/consensus:Acknowledged"}},
		{name: "a vote is not saved", file: "internal/consensus/logstore.go", old: "u.Term == s.saved.Term && u.Vote == s.saved.Vote {", new: "u.Term == s.saved.Term {", suites: []string{"internal/consensus:NeverKeptBack"}},
		{name: "the commit of a membership change is kept back", file: "internal/consensus/logstore.go", old: "return e.Type == raftpb.ConfigChangeEntry", new: "return e.Type > raftpb.ConfigChangeEntry+9", suites: []string{"internal/consensus:NeverKeptBack", "root:TestAVoterThatStaysAlone"}},
		{name: "a good-bye before the Hello makes a node a copy", file: "cluster.go", old: "case out.Code == fsm.CodeStaleIncarnation && c.leaving():", new: "case out.Code == fsm.CodeStaleIncarnation && c == nil:", suites: []string{"root:TestAHelloThatComesAfter"}},
		{name: "files have no spare descriptors", file: "internal/consensus/disk.go", old: "back, err := d.spares.Do(call)", new: "back, err := (func())(nil), call()", suites: []string{"internal/consensus:SpareDescriptors"}},
		{name: "waiting for a connection takes a spare descriptor", file: "transport/tcp.go", old: "if err := s.awaitConnection(); err != nil {", new: "if err := error(nil); err != nil {", suites: []string{"transport:Spare"}},
		{name: "spare descriptors that are lost are not replaced", file: "internal/fdreserve/fdreserve.go", old: "\t\t\ts.fillLater()\n", new: "", suites: []string{"internal/fdreserve"}},
		{name: "a replica that joins asks whom it does not know yet", file: "internal/consensus/propose.go", old: "if !g.hearsRaftLeader() {", new: "if !g.hearsRaftLeader() && ctx == nil {", suites: []string{"internal/consensus:AReplicaThatJoins"}},
		{name: "an older process of a node is heard", file: "internal/consensus/known.go", old: "return known == 0 || next == known || next>>RunBits > known>>RunBits", new: "return true", suites: []string{"sim/processes:Copies|PutBack"}},
		{name: "a vote is given twice", file: "internal/forming/voter.go", old: "case f.vote == Vote{}, f.vote.Candidate == m.From && f.vote.Ballot < m.Ballot:", new: "case f.vote.Ballot < m.Ballot || f.vote.Candidate != m.From:", suites: []string{"internal/forming"}},
		{name: "a group is formed without all votes", file: "internal/forming/forming.go", old: "\tif missing > 0 {", new: "\tif missing > 1 {", suites: []string{"internal/forming"}},
		{name: "an old vote counts", file: "internal/forming/forming.go", old: "if ok && in.Now.Sub(got.at) < votesFresh {", new: "if ok {", suites: []string{"internal/forming"}},
		{name: "a vote is given away while a group is in sight", file: "internal/forming/voter.go", old: "case f.cfg.Bootstrap < 1, len(v.groups) > 0, f.ballot != 0,", new: "case f.cfg.Bootstrap < 1, f.ballot != 0,", suites: []string{"internal/forming"}},
		{name: "a guard admits a stale token", file: "fence/guard.go", old: "if t < highest || once && t == highest {", new: "if t+1 < highest || once && t == highest {", suites: []string{"fence", "model"}},
		{name: "a token is used once and again", file: "fence/guard.go", old: "if t < highest || once && t == highest {", new: "if t < highest {", suites: []string{"fence"}},
		{name: "a node's identity is not synced", file: "internal/datadir/identity.go", old: "\t\terr = f.Sync()\n", new: "", suites: []string{"internal/datadir"}},
	})
}

// calls are defects of the root's other calls: elections, Once, sets, watching, holds.
func calls() []mutant {
	const election, once, all, feed, watch = "election.go", "once.go", "set.go", "internal/feed/feed.go", "watch.go"
	return of([]mutant{
		{name: "a leader that lost does not campaign again", file: election, old: "err = l.use(ctx, SpanTenure, fn); !again {", new: "err = l.use(ctx, SpanTenure, fn); !again || err != nil {", suites: []string{"root:CampaignsAgainAfterALoss"}},
		{name: "candidates campaign again without a pause", file: election, old: "c.sleep(ctx, d/2+rand.N(d/2))", new: "c.sleep(ctx, 0*d+rand.N(time.Microsecond))", suites: []string{"root:PausesLonger"}},
		{name: "the pause of a candidate never begins anew", file: election, old: "\t\t\tlosses = 0\n", new: "\t\t\t_ = losses\n", suites: []string{"root:PausesLonger"}},
		{name: "all candidates pause for the same time", file: election, old: "d/2+rand.N(d/2)", new: "d/2+0*rand.N(d/2)", suites: []string{"root:PausesLonger"}},
		{name: "a leader that resigns keeps the lock", file: "lease.go", old: "if e := l.Release(end); errors.Is(e, ErrLost) {", new: "if e := end.Err(); errors.Is(e, ErrLost) {", suites: []string{"root:ResignsByReturning"}},
		{name: "a leader that panics keeps the lock", file: "lease.go", old: "\tdefer func() {\n\t\tend, done := l.endTime(ctx)", new: "\tdefer func() {\n\t\tif v := recover(); v != nil {\n\t\t\tpanic(v)\n\t\t}\n\t\tend, done := l.endTime(ctx)", suites: []string{"root:LeadReleasesWhenItsFunctionPanics"}},
		{name: "the function of a lost lease is not told", file: "lease.go", old: "func() { cancel(context.Cause(l.Context())) }", new: "func() { _ = cancel }", suites: []string{"root:CampaignsAgainAfterALoss"}},
		{name: "a spectator is a candidate", file: election, old: "if o.spectator {", new: "if o.spectator && c == nil {", suites: []string{"root:SpectatorNeverLeads"}},
		{name: "an observer is told no vacancy", file: election, old: "!now.same(told) {\n\t\t\t\t\tif told = now;", new: "!now.same(told) && now.NodeID != \"\" {\n\t\t\t\t\tif told = now;", suites: []string{"root:ObserveTellsEvery"}},
		{name: "an observer is told no change of the value", file: election, old: "o.Token && bytes.Equal(l.Value, o.Value)", new: "o.Token && bytes.Equal(l.Value, l.Value)", suites: []string{"root:ObserveTellsEvery"}},
		{name: "an observer that missed events believes what it knew", file: election, old: "\t\t\tgroup.Read(func(m *fsm.Machine) { s.read(m, name) })\n", new: "\t\t\tgroup.Read(func(m *fsm.Machine) { _ = m })\n", suites: []string{"root:AnObserverThatDoesNotKeepUp"}},
		{name: "an observer misses what comes between its first answer and the next", file: election, old: "\t\tif !yield(told, nil) {\n\t\t\treturn\n\t\t}\n\t\tfor {\n", new: "\t\tif !yield(told, nil) {\n\t\t\treturn\n\t\t}\n\t\tw.Close()\n\t\tw, _ = c.watch(ctx, name, true)\n\t\tfor {\n", suites: []string{"root:ObserveTellsEvery"}},
		{name: "an observer is told again what was before its first answer", file: election, old: "if index <= s.index {", new: "if index < 1 {", suites: []string{"root:BeforeItsFirstAnswer"}},
		{name: "an observer takes a step of one command for a change", file: election, old: "for len(events) > 0 && events[0].Index == index {", new: "for one := true; one && events[0].Index == index; one = false {", suites: []string{"root:ObserveTellsEvery"}},
		{name: "Leader tells the first who waits", file: election, old: "*s = electionState{m.Commands(), l.Holders, l.Value}", new: "*s = electionState{m.Commands(), append(l.Holders, l.Waiters...), l.Value}", suites: []string{"root:AnElectionWithoutALeader"}},

		{name: "a feed drops without a word", file: feed, old: "\t\t\tw.gap = e.Index\n", new: "", suites: []string{"root:AWatcherThatDoesNotKeepUp"}},
		{name: "a feed waits for its slowest consumer", file: feed, old: "\tw.mu.Lock()\n\tfor i := range events {", new: "\tfor full := true; full; {\n\t\tw.mu.Lock()\n\t\tfull = w.bytes > BytesMax-1<<16\n\t\tw.mu.Unlock()\n\t}\n\tw.mu.Lock()\n\tfor i := range events {", suites: []string{"root:AWatcherThatDoesNotKeepUp"}},
		{name: "a feed keeps all that its consumer does not read", file: feed, old: " || len(w.events) >= EventsMax", new: "", suites: []string{"internal/feed"}},
		{name: "what comes after a gap is told before it", file: feed, old: "w.gap != 0 || len(w.events)", new: "len(w.events)", suites: []string{"root:AWatcherThatDoesNotKeepUp"}},
		{name: "a state that came as a whole is not told to those who watch", file: feed, old: "\t\tw.gap = last\n", new: "\t\t_ = last\n", suites: []string{"internal/feed"}},
		{name: "a watch that nobody iterates lives for ever", file: feed, old: "context.AfterFunc(ctx, w.forget)", new: "context.AfterFunc(ctx, func() {})", suites: []string{"internal/feed", "root:AWatchEndsWithItsContext"}},
		{name: "Watch tells of Once keys", file: feed, old: "return !once && ", new: "return !(once && w.exact) && ", suites: []string{"root:AWatchOfEverything"}},
		{name: "an event of a longer name is that of the election", file: feed, old: "\t\treturn e.Name == w.name\n", new: "\t\treturn strings.HasPrefix(e.Name, w.name)\n", suites: []string{"root:ObserveTellsEvery"}},
		{name: "what expired is told as lost", file: watch, old: "if e.Reason == fsm.ReasonExpired {", new: "if e.Reason != fsm.ReasonExpired && e.Kind == 0 {", suites: []string{"root:AWatcherMissesNothing"}},

		{name: "a hand-over is told as a vacancy", file: watch, old: "if later.Kind == fsm.EventGranted && later.Election", new: "if later.Kind == fsm.EventQueued && later.Election", suites: []string{"root:WatchTellsWhoLeads"}},
		{name: "a plain holder is told as a leader", file: watch, old: "case !e.Election:", new: "case e.Name == \"\":", suites: []string{"root:WatchTellsWhoLeads"}},

		{name: "a finished key is not said to be", file: "run.go", old: "result.Finished, err = r.lease.finish(end, r.keep)", new: "result.Finished, err = true, r.lease.Release(end)", suites: []string{"root:AKeyRunsOnce"}},
		{name: "a run that lost its lease says that it finished", file: "run.go", old: "if returned && err == nil && r.lease.Err() == nil {\n\t\t\tresult.Finished, err = r.lease.finish(end, r.keep)", new: "if returned && err == nil {\n\t\t\t_, err = r.lease.finish(end, r.keep)\n\t\t\tresult.Finished = true", suites: []string{"root:ARunnerThatLoses"}},
		{name: "an error finishes a key", file: "run.go", old: "if returned && err == nil && r.l", new: "if returned && r.l", suites: []string{"root:AnErrorOrAPanic"}},
		{name: "a panic finishes a key", file: "run.go", old: "if returned && err == nil && r.l", new: "if (returned || err == nil) && r.l", suites: []string{"root:AnErrorOrAPanic"}},
		{name: "WaitForRunner does not wait", file: "run.go", old: "fsm.OnceName(key), o.wait, o.options)", new: "fsm.OnceName(key), false, o.options)", suites: []string{"root:WhileAKeyRuns"}},
		{name: "Once waits though nobody asked it to", file: "run.go", old: "fsm.OnceName(key), o.wait, o.options)", new: "fsm.OnceName(key), true, o.options)", suites: []string{"root:WhileAKeyRuns"}},
		{name: "a key is kept for half of its time", file: once, old: "Keep: (keep + ", new: "Keep: (keep/2 + ", suites: []string{"sim/virtual:AKeyIsForgotten"}},
		{name: "a slot rounds down", file: once, old: "if rest >= step-rest {", new: "if rest >= step {", suites: []string{"root:SlotRounds"}},

		{name: "a set asks for all its names but the last", file: all, old: "\t\to.others = others\n", new: "\t\to.others = others[:max(0, len(others)-1)]\n", suites: []string{"root:ASetIsHad"}},
		{name: "giving back a set frees its first name alone", file: "fsm/acquire.go", old: "\tif c.alone() {\n\t\tm.work += costOfClaim\n\t\tm.settle(m.remove(c, how))", new: "\tif c.leads() {\n\t\tm.work += costOfClaim\n\t\tm.settle(m.remove(c, how))", suites: []string{"fsm", "root:ASetIsHad"}},
		{name: "the loss of a set frees its first name alone", file: "fsm/teardown.go", old: "\tif !c.alone() {\n\t\tall = c.more.set.claims", new: "\tif !c.leads() {\n\t\tall = c.more.set.claims", suites: []string{"fsm", "root:SetsNever"}},
		{name: "a set may be of several tags", file: all, old: "tag(name) != tag(names[0])):", new: "tag(names[0]) == \"\"):", suites: []string{"root:TheNamesOfASet"}},
	})
}

// holds are defects of places that stay taken, of what their time is measured by, and of the answer
// to why.
func holds() []mutant {
	const expiry, timers, blocked, locker = "internal/expiry/table.go", "internal/lease/timers.go", "deadlock.go", "locker.go"
	return of([]mutant{
		{name: "the group is not told of the delay", file: "lock.go", old: "Delay: o.delay,", new: "Delay: 0 * o.delay,", suites: []string{"root:FreeOfHoldersForItsDelay"}},
		{name: "a rest ends early", file: expiry, old: "Token: e.Token}, e.TTL, now)", new: "Token: e.Token}, e.TTL/2, now)", suites: []string{"internal/expiry", "model"}},
		{name: "only who was raft leader then knows of a rest", file: "dispatch.go", old: "due = l.c.times.Note(e, now) || due", new: "if g, _ := l.c.proposer.Current(); e.Kind != fsm.EventResting || g != nil && g.IsRaftLeader() {\n\t\t\tdue = l.c.times.Note(e, now) || due\n\t\t}", suites: []string{"root:MinimumHoldTime"}},
		{name: "a restored replica takes rests for over", file: expiry, old: "r.For, now)", new: "0*r.For, now)", suites: []string{"internal/expiry"}},
		{name: "a restored replica knows no rests", file: expiry, old: "for r := range m.Rests() {", new: "for r := range fsm.New().Rests() {", suites: []string{"internal/expiry"}},
		{name: "a rest that has ended is proposed for ever", file: expiry, old: "\t\tt.others.RestEnded(", new: "\t\t_ = (fsm.Grant)(", suites: []string{"internal/expiry"}},
		{name: "an end of a rest that was lost is not told again", file: timers, old: "t.queue.move(r, now.Add(t.retry))", new: "t.queue.move(r, Never)", suites: []string{"model", "root:ARestThatEndsWithoutAMajority"}},
		{name: "Once keys are forgotten early", file: timers, old: "last.at.Add(fsm.OncePeriod(k.Keep))", new: "last.at.Add(fsm.OncePeriod(k.Keep) / 8)", suites: []string{"model", "sim/virtual:AKeyIsForgotten"}},
		{name: "Once keys are never swept away", file: timers, old: "if k.Over != 0 && raftLeader {", new: "if k.Over != 0 && !raftLeader {", suites: []string{"root:ManyKeysAreForgotten"}},
		{name: "one holder of a semaphore closes a cycle", file: "fsm/blocked.go", old: "kept > uint64(l.limit) {", new: "true {", suites: []string{"fsm"}},
		{name: "a permit that can come back is not counted", file: "fsm/blocked.go", old: "kept := uint64(c.weight)", new: "kept := uint64(0)", suites: []string{"fsm"}},
		{name: "holders beyond the bound wait for nothing", file: "fsm/acquire.go", old: "m.full(l) && l.joins(c.Mode, weight) {", new: "false {", suites: []string{"fsm"}},
		{name: "a cycle is not told", file: blocked, old: "range m.Cycles(b.Name) {", new: "range m.Cycles(b.Name)[:0] {", suites: []string{"root:ACycleOfWaiters"}},
		{name: "nobody knows what a caller holds while it waits", file: "lock.go", old: "While: c.within(ctx),", new: "While: c.within(ctx)[:0],", suites: []string{"root:ACycleOfWaiters"}},
		{name: "a deadlock is not refused to who asked for that", file: "lock.go", old: "Refuse: o.refuse,", new: "Refuse: o.refuse && name == \"\",", suites: []string{"root:ACycleOfWaiters"}},
		{name: "only the innermost lease is held while one waits", file: blocked, old: "\t\tctx = l.asked\n", new: "\t\treturn tokens\n", suites: []string{"root:ACycleIsSeenThrough"}},
		{name: "who comes after this node is said to come before", file: blocked, old: "} else if b.Waiting == 0 {", new: "} else if b.Waiting >= 0 {", suites: []string{"root:WhyBlockedTells"}},
		{name: "a rest is said to last its whole time", file: blocked, old: "c.left(r.Since, r.For, now)", new: "c.left(0, r.For, now)", suites: []string{"root:WhyBlockedTells"}},
		{name: "Lock returns without the lock", file: locker, old: "\t\truntime.Goexit()\n", new: "\t\tif !errors.Is(err, ErrClosed) {\n\t\t\truntime.Goexit()\n\t\t}\n\t\treturn\n", suites: []string{"root:ALockersLoss"}},
		{name: "a locker keeps its loss to itself", file: locker, old: "errors.Is(err, ErrLost) {\n\t\t\tk.onLoss(err)", new: "errors.Is(err, ErrLost) {\n\t\t\t_ = err", suites: []string{"root:ALockersLoss"}},
		{name: "a locker unlocks twice", file: locker, old: "\tk.lease = nil\n", new: "", suites: []string{"root:ALockersLoss"}},
	})
}
