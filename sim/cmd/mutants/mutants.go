package main

import "slices"

// mutants are the defects, by what they are defects of. Where several break one decision of a
// function, the one that is hardest to notice stands here alone.
func mutants() []mutant {
	return slices.Concat(locks(), setsRestsOnce(), sessions(), steps(), validities(), sides(), calls(), below(), membership(), batches())
}

func locks() []mutant {
	return []mutant{
		{"reuse a token", "Machine.grant", "\tm.counter++\n\tm.hold(l, c)\n\tm.requests", "\tif m.counter == l.last {\n\t\tm.counter++\n\t}\n\tm.hold(l, c)\n\tm.requests", "model own"},
		{"wake two waiters", "Machine.serveQueue", "\tfor l.waiters > 0 {\n\t\tc := m.head(l)\n\t\tif !c.alone() {\n\t\t\tm.work += costOfLook * len(c.more.set.claims)\n\t\t}\n\t\tif !finished && (!m.fits(l, c.Mode, c.Weight) ||", "\tbefore := m.counter\n\tfor l.waiters > 0 {\n\t\tc := m.head(l)\n\t\tif !c.alone() {\n\t\t\tm.work += costOfLook * len(c.more.set.claims)\n\t\t}\n\t\tif !finished && (!m.fits(l, c.Mode, c.Weight) && m.counter != before+1 ||", "model own"},
		{"last in, first out", "lessByTurn", `return a.index < b.index`, `return a.index > b.index`, "model own"},
		{"one permit too many", "lock.joins", `uint64(l.used)+uint64(weight) <= uint64(l.limit)`, `uint64(l.used)+uint64(weight) <= uint64(l.limit)+1`, "model own"},
		{"a reader joins a writer", "lock.joins", `mode == l.mode && mode != Exclusive &&`, `(mode == l.mode || l.mode == Exclusive) && mode != Exclusive &&`, "model own"},
		{"who asks for a lock waits for a semaphore", "lock.differs", `return l.inUse() && l.limit != limit`, `return limit > 0 && l.inUse() && l.limit != limit`, "model own"},
		{"a place that rests is in no use", "lock.inUse", `l.holders > 0 || l.waiters > 0 || l.resting > 0`, `l.holders > 0 || l.waiters > 0`, "model own"},
		{"release by name", "Machine.holder", `if l.holder.token == token {`, `if l.holder != nil {`, "model own"},
		{"overtake the queue", "Machine.place", `free := l == nil || l.waiters == 0 && m.fits(l, c.Mode, terms.Weight)`, `free := l == nil || m.fits(l, c.Mode, terms.Weight)`, "model own"},
		{"a late duplicate is carried out again", "Acquire.apply", "if m.over(s, c.Request) {\n\t\treturn Outcome{Code: CodeFinished}\n\t}\n\tif !m.roomForRequest(s, c.Request) {\n\t\treturn Outcome{Code: CodeTooManyRequests}\n\t}\n\to := m.place", "if !m.roomForRequest(s, c.Request) {\n\t\treturn Outcome{Code: CodeTooManyRequests}\n\t}\n\to := m.place", "model own"},
		{"a request that was given up is carried out when it comes", "Withdraw.apply", "\t\tcase m.roomForRequest(s, number):\n\t\t\tm.finish(s, number)\n", "\t\tcase m.roomForRequest(s, number):\n", "model own"},
		{"fewer permits leave waiters that want more", "Machine.sifts", `if c.Weight > l.limit {`, `if c.Weight > l.limit && c.token != 0 {`, "own"},
		{"a semaphore that was made smaller is served meanwhile", "Machine.serveQueue", `if l.unsettled && !m.sifts(l) {`, `if l.unsettled && !m.sifts(l) && l.waiters == 0 {`, "own"},
		{"a late resize counts", "Resize.apply", `if c.Seen < m.resized {`, `if c.Seen > m.commands {`, "own"},
		{"a rest brings the limit back from before a resize", "Machine.occupy", `resized := m.resizes.Get(l.name); resized {`, `resized := m.resizes.Get(l.name); resized && x.at == 0 {`, "own"},
		{"a quota counts no waiters", "Machine.overQuota", `node.by(u.locks+u.waiters+claims, QuotaLocks`, `node.by(u.locks+claims, QuotaLocks`, "own"},
		{"a quota of each node is of none", "Machine.quotaOf", `q, _ = m.quotas.Get(Quota{})`, `q = Quota{}`, "own"},
		{"a fork counts for its machine", "Machine.ownUse", `if !ok || ref.epoch != m.epoch {`, `if !ok {`, "own"},
		{"a released request is forgotten at once", "Machine.end", "\tm.finish(s, c.request)\n\tif c.alone() {", "\tif c.alone() {", "model own"},
	}
}

func setsRestsOnce() []mutant {
	return []mutant{
		{"a finished key runs again", "Machine.begin", `if r, ok := m.keys.Get(&onceRecord{name: name}); ok {`, `if r, ok := m.keys.Get(&onceRecord{name: name}); ok && r.keep == 0 {`, "model own"},
		{"a run that is over finishes the key of the next", "Finish.apply", `m.heldBy(s, l, c.Token) != nil {`, `l != nil && l.holder != nil {`, "model own"},
		{"a key is forgotten a turn early", "turnsFor", `return int((time+period-1)/period) + 1`, `return int((time+period-1)/period)`, "model own"},
		{"a sweep forgets what is not over", "Machine.forgetKeys", `upto = min(upto, k.over(keep))`, `_ = k.over(keep)`, "model own"},
		{"a set overtakes", "Machine.fitsSet", `if !m.fits(l, c.Mode, c.Weight) || m.head(l) != c {`, `if !m.fits(l, c.Mode, c.Weight) {`, "model own"},
		{"a rest takes no room", "Machine.occupy", "\tl.used += r.weight\n", ``, "model own"},
		{"what is lost does not rest", "ending.of", `how.rest = uint64(c.Delay / time.Millisecond)`, `how.rest = uint64(0 / time.Millisecond)`, "model own"},
		{"each name of a set has a token of its own", "Machine.holdSet", "\tm.counter++\n\tfor _, c := range all.claims {", "\tfor _, c := range all.claims {\n\t\tm.counter++", "model own"},
		{"the other locks of a set serve nobody", "Machine.settle", "\tfor len(m.pending) > 0 {", "\tfor len(m.pending) > 1<<20 {", "model own"},
		{"a late duplicate writes the value again", "SetValue.apply", "\tif m.over(s, c.Request) {\n", "\tif m.over(s, c.Request) && c.Token == 0 {\n", "model own"},
		{"a turn counts from the one before the last", "Timers.TurnsDue", "if !ok || last.index != k.Last {\n\t\t\tlast = lastSeen{k.Last, now}", "if !ok || last.index != k.Last {\n\t\t\tif !ok {\n\t\t\t\tlast.at = now\n\t\t\t}\n\t\t\tlast.index = k.Last", "model own"},
		{"only the raft leader times what rests", "Timers.lag", "\treturn t.stagger\n", "\treturn t.stagger + 1000*time.Hour\n", "own"},
	}
}

func sessions() []mutant {
	return []mutant{
		{"a recovered group goes on with the tokens of its source", "Machine.Recover", `max(m.counter, r.Counter)`, `m.counter`, "model own"},
		{"an expiry by an older renewal counts", "Expire.apply", `if c.Renewed != s.renewed {`, `if c.Renewed > s.renewed {`, "model own"},
		{"a session that ended opens again", "Machine.open", "\tcase m.used(n, id.Number):\n", "\tcase m.used(n, id.Number) && m.sessions.Len() > 1<<20:\n", "model own"},
		{"a quota ends the session of a call", "Code.Left", "CodeValuesFull,\n\t\tCodeOverQuota:\n\t\treturn true, RequestFinished", "CodeValuesFull:\n\t\treturn true, RequestFinished\n\tcase CodeOverQuota:\n\t\treturn false, RequestSessionLost", "model own"},
		{"a late keepalive renews", "Keep.apply", `case c.Seq > s.seq:`, `case c.Seq > 0:`, "model own"},
		{"a session said to be lost opens later", "Keep.apply", "\t\t\tm.retire(id) // the client", "\t\t\t// the client", "model own"},
		{"a lock is served before all of a step has gone", "Machine.dropClaim", "\t\tm.remove(c, how)\n\t\tm.names = append(m.names, c.name)\n", "\t\tm.remove(c, how)\n\tif l := m.lock(c.name); l != nil {\n\t\tm.settle(l)\n\t}\n", "model own"},
		{"the answered floor takes one too many", "Machine.ack", `m.finished.prune(s.opened, s.acked, m.limits.prune)`, `m.finished.prune(s.opened, s.acked+1, m.limits.prune)`, "model own"},
		{"all that was heard is forgotten at once", "Machine.ack", `m.finished.prune(s.opened, s.acked, m.limits.prune)`, `m.finished.prune(s.opened, s.acked, 1<<30)`, "own"},
		{"what one command does not forget stays", "Machine.ack", `s.heard = gone == m.limits.prune &&`, `s.heard = gone > m.limits.prune &&`, "own"},
		{"a change of the TTL that was overtaken says that it is carried out", "Keep.apply", "\t\t\tout.Code = CodeFinished\n", "\t\t\t_ = out\n", "model own"},
		{"a disk that was moved to another machine is proof", "Place.proves", `p.Boot != "" && p == former`, `p.Boot != "" && p.Device == former.Device && p.File == former.File`, "model own"},
		{"a copy of a disk on one machine is proof", "Place.proves", `p.Boot != "" && p == former`, `p.Boot != "" && p.Boot == former.Boot`, "model own"},
		{"a superseded process acquires", "Machine.open", "\tif code != CodeOK {\n\t\treturn nil, Outcome{Code: code}\n\t}\n\tif s := m.session(id)", "\tif code != CodeOK && m.session(id) == nil {\n\t\treturn nil, Outcome{Code: code}\n\t}\n\tif s := m.session(id)", "model own"},
		{"removal ends grants", "Remove.apply", "\tm.withdrawAll(m.leave(n), ReasonRemoved)\n", "\tm.endSessions(m.leave(n), m.commands, ending{reason: ReasonRemoved})\n", "model own"},
		{"a late revocation counts", "Machine.endSessions", `if upto = min(upto, m.commands); n.gone`, `if upto = m.commands; n.gone`, "model own"},
		{"anybody may propose for anybody", "Machine.one", `of != by && of != (Process{})`, `of != by && of == (Process{1})`, "model own"},
		{"a later good-bye lets a node that has left in again", "Goodbye.apply", `case known && (c.Incarnation < last.incarnation || c.Incarnation > last.incarnation && last.departure == Gone):`, `case known && c.Incarnation < last.incarnation:`, "model own"},
	}
}

// steps are defects of what ends in steps, what is kept, and what shares an entry.
func steps() []mutant {
	return []mutant{
		{"what has ended is granted", "Machine.serveQueue", `c.Weight) || m.gone(c) ||`, `c.Weight) ||`, "model own"},
		{"what is withdrawn is granted", "Machine.gone", `return c.token == 0 && c.index <= n.withdrawn`, `return false && c.index <= n.withdrawn`, "model own"},
		{"a token of what has ended is current", "Machine.Granted", `return c != nil && !m.gone(c)`, `return c != nil`, "model own"},
		{"who has ended closes a cycle", "tracer.holder", `slices.Contains(t.goal, h.token) && !t.m.gone(h)`, `slices.Contains(t.goal, h.token)`, "model own"},
		{"a step is taken twice", "Continue.apply", `!left || c.Last != last {`, `!left || c.Last > last {`, "model own"},
		{"the end of an end is the end of an older one", "Machine.endsAt", "\t\t\tupto = max(upto, t.upto)\n", ``, "model own"},
		{"who is still to be served never is", "Machine.serveQueue", `m.postpone(l, later)`, `m.postpone(l, false)`, "model own"},
		{"snapshot without what is left of an end", "Machine.WriteSnapshot", `t.fields(f.record()); return f.add()`, `return true`, "model own"},
		{"snapshot without the number of the last keepalive", "session.fields", "\tf.uint(5, &s.seq)\n", ``, "model own"},
		{"a snapshot shares locks that go on changing", "Machine.lock", `l.epoch != m.epoch {`, `l.epoch > m.epoch {`, "model own"},
		{"an index remembers what is gone", "index.Delete", `n.remember(name, nil)`, ``, "own"},
		{"the last number of a run is forgotten", "spans.contains", `return ok && n <= s.high`, `return ok && n < s.high`, "model own"},
		{"a batch is carried out up to what is unknown", "Machine.batch", "errors.Is(err, ErrUnsupported) {\n\t\treturn Outcome{Code: CodeUnsupported}\n\t} else if err != nil {", `err != nil && !errors.Is(err, ErrUnsupported) {`, "own"},
		{"a command is proposed though its caller has given up", "Group.submit", `removed := t.queue.Remove(c)`, `removed := c == nil`, "Travel|GivesUp|ALostAnswer"},
		{"the level rises over a process that does not know it", "Level.apply", `if n.Lacks(c.Level) {`, `if n.Lacks(c.Level) && n.Gone {`, "own"},
		{"a process below the level of the group comes in", "Hello.apply", `case max(c.Level, 1) < m.Level():`, `case max(c.Level, 1) < m.Level() && !known:`, "own"},
		{"a removed process comes back below the level", "Machine.comeBack", `case max(n.level, 1) < m.Level():`, `case max(n.level, 1) < 0*m.Level():`, "own"},
		{"a command above the level gets into the log", "Group.Propose", `needs > level {`, `needs > level && level > 1 {`, "AboveTheLevel"},
		{"a change that was decided in an earlier term is proposed", "Group.change", `|| now.term != term`, ``, "EarlierTerm"},
		{"a replica below the level goes on", "levelError", `level > known {`, `level > known+1 {`, "OlderThanItsGroup"},
		{"absence does not hold the level", "lacking", `m.Heard > patience`, `m.Heard > 1000*patience`, "own"},
		{"the pause goes on though somebody went back", "Leader.Rise", "\tl.agreed = 0\n\treturn 0, fmt.Sprintf(", "\treturn 0, fmt.Sprintf(", "own"},
		{"snapshots go by entries alone", "backlog.isDue", `c.commands.Load() >= c.commandsMax ||`, ``, "ARestartApplies"},
	}
}

func validities() []mutant {
	return []mutant{
		{"clocks do not drift", "ValidUntil", `max(0, ttl-lost-Margin(ttl))`, `max(0, ttl-0*lost-Margin(ttl))`, "model own"},
		{"a clock that stood still is not found out", "Peer.Behind", `lost > Overlooked {`, `lost > Overlooked && p.at == 0 {`, "model own"},
		{"a clock that was found out is not compared anew", "Peer.Behind", `if p.at <= since {`, `if p.at < 0 {`, "model own"},
		{"no margin", "ValidUntil", `max(0, ttl-lost-Margin(ttl))`, `max(0, ttl-lost)`, "model own"},
		{"count from the reply instead of the send", "Plan.Renewed", `if p.extend(s, min(sent, now)) &&`, `if p.extend(s, max(sent, now)) &&`, "model own"},
		{"a shorter TTL may be relied on no less", "Plan.Retime", "\ts.validUntil = min(s.validUntil, s.most)\n", ``, "model own"},
		{"a renewal hides a shorter TTL that may come", "Plan.extend", `min(ValidUntil(sent, s.ttl, p.drift), s.most)`, `ValidUntil(sent, s.ttl, p.drift)`, "model own"},
		{"a late answer brings an old TTL back", "Plan.Retimed", `if change >= s.done {`, `if change >= 0 {`, "model own"},
		{"a renewal does not restart the replica's clock", "Expiries.Renewed", "\ts.applied = max(s.applied, applied)\n", ``, "model own"},
		{"restart the TTL on a new raft leader", "Expiries.Step", "\tif raftLeader {\n\t\tlag = 0\n", "\tif raftLeader {\n\t\tlag = 0\n\t\tfor _, s := range e.sessions {\n\t\t\ts.applied, s.due = now, now.Add(s.ttl)\n\t\t}\n", "model own"},
		{"the lowest number in use is too high", "Numbers.Lowest", `return n.floor + 1 }`, `return n.last + 1 }`, "model own"},
		{"a restored replica knows how old renewals are", "Table.Restore", `t.sessions.Renewed(s.ID, s.Renewed, s.TTL, now)`, `t.sessions.Renewed(s.ID, s.Renewed, s.TTL, now.Add(-s.TTL))`, "own model"},
		{"an end of a rest that was lost is not told again", "Timers.RestsDue", `t.queue.move(r, now.Add(t.retry))`, `t.queue.move(r, Never)`, "model ARestThatEndsWithoutAMajority"},
	}
}

func sides() []mutant {
	return []mutant{
		{"validity of the first grant counts from the reply", "Table.Opened", `s.first, !s.manual || queued`, `now, !s.manual || queued`, "model own"},
		{"a session is opened before it has its validity", "Table.Opened", "\t\tt.mu.Lock() // until the session has its validity", "\t\ts.mu.Unlock()\n\t\tt.mu.Lock()\n\t\ts.mu.Lock() //", "CallsThatOpenASession"},
		{"a session that is over is given to the next call", "Table.Lose", "\tt.unshare(s)\n\tt.mu.Lock()\n\tt.plan.Remove", "\tt.mu.Lock()\n\tt.plan.Remove", "model own"},
		{"a call may forget an answer that it waits for", "Session.begin", `return n, s.requests.Lowest(), nil`, `return n, n, nil`, "model own"},
		{"who takes its grant late is not told that it is wanted", "Session.adopt", "\tif c.wanted {\n", "\tif c.wanted && c.waiter != nil {\n", "model own"},
		{"a session is closed before the group knows of a rest", "Session.unused", ` || s.pins > 0`, ``, "model own"},
		{"a lease that lapsed is renewed", "Session.extend", "\t\tif lease.Instant(old) == never {\n\t\t\treturn false\n\t\t}\n", ``, "model own"},
		{"a session that the group has ended begins to be valid", "Session.begins", `if s.groupCause.Load() == nil {`, `if s.over == nil {`, "model own"},
		{"a call that gave up unheard leaves its session", "Table.Skip", "\tt.discard(s)\n", ``, "model own"},
		{"the group never hears of what it never saw", "Session.leavesGap", `request > s.requests.Lowest()`, `request < s.requests.Lowest()`, "NeverSees"},
		{"a minimum hold counts from the release", "Grant.Rest", `g.minHold - time.Duration(now-g.since)`, `g.minHold - 0*time.Duration(now-g.since)`, "HowLongAPlace"},
		{"a session stays in use after a rest", "Grant.left", "\tif g.mayRest() {\n\t\tg.session.unpin()\n\t}\n", ``, "model own"},
		{"the outcome of a keepalive is not looked at", "Keepalive.lost", `out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number)`, `out.Code != fsm.CodeOK`, "model own"},
		{"the group may forget the lowest session", "Table.Renewal", `k.Command.Lowest = t.numbers.Lowest()`, `k.Command.Lowest = t.numbers.Lowest() + 1`, "model own"},
		{"who waits is not told that its node was removed", "Table.Note", "fsm.ReasonSuperseded, fsm.ReasonRemoved, ", "fsm.ReasonSuperseded, ", "model own"},
		{"a snapshot hides the end of a grant", "Table.restore", "\t\t\tt.revoke(s, number, ErrForced)\n", ``, "model own"},
		{"the end of a session overtakes a rest", "Debt.Command", "\tcase len(d.rests) > 0:\n\t\treturn", "\tcase len(d.rests) > 0 && !d.close:\n\t\treturn", "model own"},
		{"a change of the TTL is not known to the plan", "Table.Retiming", `t.plan.Retime(s.id.Number, k.Command.Seq, ttl, now)`, `t.plan.Retime(0, k.Command.Seq, ttl, now)`, "EveryHistory"},
		{"a change of the TTL is not stored", "Table.extend", "\ts.ttl.Store(int64(ttl))\n", "\t_ = ttl\n", "own"},
		{"an answer from before a change of the TTL counts", "Table.Answered", "\tif out.Code == fsm.CodeFinished {\n\t\treturn\n\t}\n", "\tif out.Code == fsm.CodeFinished {\n\t\tout.Code = fsm.CodeOK\n\t}\n", "model own"},
	}
}

func calls() []mutant {
	return []mutant{
		{"Valid does not look at the clock", "Lease.Valid", `case l.c.clock.Now() < until:`, `case until != 0:`, "Isolated|Suspended"},
		{"only what the raft leader applied is timed", "observer.Applied", `due = o.n.times.Note(e, now) || due`, "if g, _ := o.n.Proposer.Current(); g != nil && g.IsRaftLeader() {\n\t\t\tdue = o.n.times.Note(e, now) || due\n\t\t}", "DeadHolder"},
		{"the lease of a run outlives its function", "Run.finish", "\t\tif !l.grant.End(ErrReleased) {\n\t\t\tl.c.group.Leave(seam.Holding)\n\t\t\treturn false, l.Err()\n\t\t}\n", "\t\tdefer l.grant.End(ErrReleased)\n", "TheLeaseOfARun"},
		{"a leader that lost does not campaign again", "Cluster.lead", `if u.loss == nil || u.late {`, `if u.loss == nil || u.late || u.err != nil {`, "CampaignsAgainAfterALoss"},
		{"all candidates pause for the same time", "Cluster.lead", `losses+1, rand.Float64()`, `losses+1, 0*rand.Float64()`, "PausesLonger"},
		{"a leader that panics keeps the lock", "Lease.use", "\t\tend, done := l.endTime(ctx)\n", "\t\tif v := recover(); v != nil {\n\t\t\tpanic(v)\n\t\t}\n\t\tend, done := l.endTime(ctx)\n", "LeadReleasesWhenItsFunctionPanics"},
		{"an observer is told no vacancy", "Cluster.Observe", "!now.same(told) {\n\t\t\t\t\tif told = now;", "!now.same(told) && now.NodeID != \"\" {\n\t\t\t\t\tif told = now;", "ObserveTellsEvery"},
		{"an observer misses what comes between its first answer and the next", "Cluster.Observe", "\t\tif !yield(told, nil) {\n\t\t\treturn\n\t\t}\n\t\tfor {\n", "\t\tif !yield(told, nil) {\n\t\t\treturn\n\t\t}\n\t\tw.Close()\n\t\tw, _ = c.watch(ctx, name, true)\n\t\tfor {\n", "ObserveTellsEvery"},
		{"an observer is told again what was before its first answer", "electionState.apply", `if index <= s.index {`, `if index < 1 {`, "BeforeItsFirstAnswer"},
		{"a feed drops without a word", "Watch.take", "\t\t\tw.gap = e.Index\n", ``, "AWatcherThatDoesNotKeepUp"},
		{"what comes after a gap is told before it", "Watch.take", `w.gap != 0 || len(w.events)`, `len(w.events)`, "AWatcherThatDoesNotKeepUp"},
		{"an event of a longer name is that of the election", "Watch.concerns", "\t\treturn e.Name == w.name\n", "\t\treturn strings.HasPrefix(e.Name, w.name)\n", "ObserveTellsEvery"},
		{"a hand-over is told as a vacancy", "leaderAfter", `if later.Kind == fsm.EventGranted && later.Election`, `if later.Kind == fsm.EventQueued && later.Election`, "WatchTellsWhoLeads"},
		{"a run that lost its lease says that it finished", "Run.call", "case open == nil:\n\t\t\tif result.Finished, err = r.finish(end); r.lease.Err() != nil {", "default:\n\t\t\tif _, err = r.finish(end); true {\n\t\t\t\tresult.Finished = true", "ARunnerThatLoses"},
		{"the loss of a set frees its first name alone", "claim.all", `if c.alone() {`, `if c.leads() {`, "own SetsNever"},
		{"the group is not told of the delay", "Cluster.attempt", `Delay: o.delay,`, `Delay: 0 * o.delay,`, "FreeOfHoldersForItsDelay"},
		{"one holder of a semaphore closes a cycle", "tracer.held", `kept > uint64(l.limit) {`, `true {`, "own"},
		{"a cycle is not told", "Cluster.blocked", `range l.Cycles {`, `range l.Cycles[:0] {`, "ACycleOfWaiters"},
		{"only the innermost lease is held while one waits", "Cluster.within", "\t\tctx = l.asked\n", "\t\treturn tokens\n", "ACycleIsSeenThrough"},
		{"a locker keeps its loss to itself", "Locker.keep", "errors.Is(err, ErrLost) {\n\t\t\tk.onLoss(err)", "errors.Is(err, ErrLost) {\n\t\t\t_ = err", "ALockersLoss"},
	}
}

// below are defects of what the node stands on.
func below() []mutant {
	return []mutant{
		{"wall clock for monotonic", "system.read", `return awake, known`, `return wall, known`, "own"},
		{"sleep of the machine does not count", "system.settle", `next.slept = max(next.slept, total-s.asleep)`, `next.slept = max(next.slept, 0*total)`, "own"},
		{"a vote is not saved", "logStore.merge", `u.Term == s.saved.Term && u.Vote == s.saved.Vote {`, `u.Term == s.saved.Term {`, "NeverKeptBack"},
		{"the commit of a membership change is kept back", "changesMembers", `return e.Type == raftpb.ConfigChangeEntry`, `return e.Type > raftpb.ConfigChangeEntry+9`, "NeverKeptBack AVoterThatStaysAlone"},
		{"files have no spare descriptors", "disk.patiently", `back, err := d.spares.Do(call)`, `back, err := (func())(nil), call()`, "SpareDescriptors"},
		{"an older process of a node is heard", "after", `return known == 0 || next == known || next>>RunBits > known>>RunBits`, `return true`, "Copies|PutBack"},
		{"a vote is given twice", "Forming.grant", `case f.vote == Vote{}, f.vote.Candidate == m.From && f.vote.Ballot < m.Ballot:`, `case f.vote.Ballot < m.Ballot || f.vote.Candidate != m.From:`, "own"},
		{"an old vote counts", "Forming.campaign", `if ok && in.Now.Sub(got.at) < votesFresh {`, `if ok {`, "own"},
		{"a guard admits a stale token", "judge", `if t < highest || once && t == highest {`, `if t+1 < highest || once && t == highest {`, "own model"},
	}
}

// membership are defects of the membership, and what a raft leader knows for it.
func membership() []mutant {
	return []mutant{
		{"a change is planned while the last outcome is unknown", "view.blocked", "\tcase v.Unknown:\n", "\tcase v.Unknown && v.Index == 0:\n", "NoHistory own"},
		{"a new raft leader believes what former ones knew", "view.blocked", `case v.Listening < v.Moment:`, `case v.Listening < 0:`, "NoHistory own"},
		{"a newcomer is promoted on the strength of its own life", "view.mayPromote", `return v.heard >= quorum(len(v.voters)+1)`, `return v.heard+1 >= quorum(len(v.voters)+1)`, "NoHistory own"},
		{"an only voter can't leave to its only standby", "view.mayPromote", `return len(v.ready) > 1 || v.staying == 0`, `return len(v.ready) > 1`, "NoHistory own"},
		{"a standby is promoted before it has caught up", "view.isReady", "\t\tm.Running && m.Behind", "\t\tm.Behind", "NoHistory own"},
		{"a removal may cost the majority", "view.removeVoter", `if v.without(v.voters[i]) < quorum(len(v.voters)-1) {`, `if v.without(v.voters[i]) < 1 {`, "NoHistory own"},
		{"many steps within a moment count on the same old news", "view.without", `v.Changed == 0 || m.Heard < v.Changed`, `v.Changed >= 0`, "LastChange AStandbyThatHasJustDied"},
		{"who says good-bye counts as gone", "view.hears", `return m.Heard < v.Moment && m.Departure != fsm.Gone`, `return m.Heard < v.Moment && m.Departure == fsm.Stays`, "NoHistory own"},
		{"a raft leader that leaves hands over to one that leaves", "view.handOver", `m.Node != v.Self && m.Departure == fsm.Stays && v.hears(m)`, `m.Node != v.Self && v.hears(m)`, "NoHistory own"},
		{"a voter that is heard without progress counts as heard", "Leader.progress", `one.At = min(one.At, now-lease.Instant(lag))`, `one.At = min(one.At, now)`, "model own"},
		{"gossip condemns a voter", "view.isFailed", `return m.Heard >= v.ReplaceAfter`, `return max(m.Heard, m.Seen) >= v.ReplaceAfter`, "NoHistory own"},
		{"a dead standby keeps the last from leaving", "view.removeStandby", `case v.staying == 0 && v.isLost(m)`, `case v.staying < 0 && v.isLost(m)`, "Typical"},
		{"voters crowd in one zone", "domains.better", `d.compare(a.Zone, b.Zone)`, `0*d.compare(a.Zone, b.Zone)`, "NoRandomHistory"},
		{"a zone that lacks a replica is given none for that of a crowded zone", "view.exchanges", `if v.Expected > 0 ||`, `if v.Expected >= 0 ||`, "own"},
		{"the first replicas are those that ask first", "view.awaits", `return v.Expected > 0 &&`, `return v.Expected < 0 &&`, "own"},
		{"a voter waits for a client that is given no replica", "view.comes", `return v.asks(m) && !(m.Able && v.isFull())`, `return v.asks(m)`, "own"},
		{"who has had a replica counts as dead though it renews", "Leader.Withdrawal", `case before && n.Since <= at && s.Renewed(n.Node, n.Incarnation) <= at:`, `case before:`, "own"},
		{"a standby goes before the one that it goes for could vote", "view.removeExcess", `if v.isReady(worst) && slices`, `if v.Index == 1 && slices`, "own"},
		{"a candidate has no zone", "Leader.candidates", `Zone: m.Zone, `, ``, "own"},
		{"what a raft leader heard itself is forgotten with its term", "silences.lead", `max(s.since, before[replica])`, `max(s.since, 0*before[replica])`, "own"},
		{"what is applied after the election is not news", "silences.take", "\t\tif h.over[node] {", "\t\tif h.over[node] && known && last == 0 {", "own"},
		{"who leaves is let go on the word of one that died a moment ago", "Leader.input", `if !before[replica] {`, `if !before[replica] && now < 0 {`, "own"},
		{"who was removed while away is not told", "Leader.News", `m.Phase.Runs() && !in, now)`, `m.Phase == PhaseFresh && !in, now)`, "model own"},
	}
}

// batches are defects of what many callers share: entries, places, steps, and news.
func batches() []mutant {
	return []mutant{
		{"an answer goes to another caller", "Group.submit", "\treturn fsm.Outcome{}, fmt.Errorf(\"%w: %w\", ErrUnknown, ctx.Err())\n", "\tt.calls.Put(c)\n\treturn fsm.Outcome{}, fmt.Errorf(\"%w: %w\", ErrUnknown, ctx.Err())\n", "NoAnswerGoes"},
		{"locks wait behind sets", "Queue.line", `if c.Cost >= LargeMin {`, `if c.Cost > CostMax {`, "own"},
		{"an entry ends as if it had had one command", "Queue.End", `q.commands -= len(e.Calls)`, `q.commands--`, "own"},
		{"a command that arrives overtakes those that wait", "Queue.Begin", `!q.free() || q.Len() > 0`, `!q.free()`, "own"},
		{"a caller that is let in as it leaves keeps its place", "Admission.leaveQueue", "\t\tif in {\n", "\t\tif !in {\n", "own"},
		{"a teardown ends sessions that were opened after its range", "Machine.tearProcess", ` && s.opened <= t.upto`, ``, "own"},
		{"a withdrawal in steps goes on at the request of a session that has gone", "Machine.tearWaits", "\tt.at, t.after = s.id.Number, 0\n\t\t}\n\t\tm.claims", "\tt.at = s.id.Number\n\t\t}\n\t\tm.claims", "own"},
		{"a withdrawal that was refused is proposed again without a pause", "Debt.withdrawn", `if full && len(batch) > 1 {`, `if full {`, "own"},
		{"the planner is not told that the membership has changed", "Leader.input", `l.change, l.changed = members.Change, now`, `l.change = members.Change`, "own"},
		{"a raft leader hands over to the follower that has the least", "view.handOver", `m.Behind < to.Behind`, `m.Behind > to.Behind`, "own"},
		{"a raft leader publishes its own silence", "silences.report", `node != self && d >= silentAfter`, `d >= silentAfter`, "own"},
		{"a silence is from the future", "silences.take", `min(one.At, now)`, `one.At`, "own"},
		{"a state that came as a whole is not told of", "Proposer.Restored", `m.Commands() <= f.told.Load()`, `m.Commands() > 0`, "own"},
		{"what a replica applied before it was open to calls is not told", "Proposer.open", `p.follow.skipped.Store(true)`, `p.follow.skipped.Store(false)`, "own"},
		{"a replica that is not open to calls tells", "Proposer.AppliedHere", `p.open()`, `p.open() || true`, "own"},
		{"a raft leader counts silence from its former term", "Leader.input", `s.Term != l.term`, `s.Term < l.term`, "own"},
		{"a keeper does not look at a state that came as a whole", "keeper.Gap", `err := k.table.Restore(func(`, `err := func(func(fsm.QueryClaims) (fsm.ClaimsState, error)) error { return nil }(func(`, "NothingIsLostWithTheEvents"},
		{"what was told of a group that is given up counts for the next", "Proposer.catchUp", `f.told.Store(last)`, `f.told.Store(max(f.told.Load(), last))`, "own"},
		{"a client stays at a replica that hears no raft leader", "client.pong", `!c.s.cfg.Led()`, `c.s.cfg.Led == nil`, "ClientLeavesAReplica"},
		{"what was told is one behind", "Proposer.Applied", `f.told.Store(last)`, `f.told.Store(last - 1)`, "own"},
		{"what was told is one ahead", "Proposer.Applied", `f.told.Store(last)`, `f.told.Store(last + 1)`, "own"},
	}
}
