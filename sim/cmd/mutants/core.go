package main

func mutants() []mutant {
	var all []mutant
	for _, part := range []func() []mutant{locks, setsRestsOnce, timers, sessions, teardowns, snapshots, validities, sides, changes, shell, calls, holds, around, together, membership, hearings} {
		all = append(all, part()...)
	}
	return all
}

// of gives a part's mutants their suites, where they have none of their own.
func of(list []mutant, suites ...string) []mutant {
	for i := range list {
		if list[i].suites == nil {
			list[i].suites = suites
		}
	}
	return list
}

// locks are defects of who gets a lock.
func locks() []mutant {
	const lock, acquire, release = "fsm/lock.go", "fsm/acquire.go", "fsm/release.go"
	return of([]mutant{
		{name: "reuse a token", file: lock, old: "\tm.counter++\n\tm.hold(l, c)\n\tm.requests", new: "\tif m.counter == l.last {\n\t\tm.counter++\n\t}\n\tm.hold(l, c)\n\tm.requests"},
		{name: "wake two waiters", file: lock, old: "\tfor l.waiters > 0 {\n\t\tc := m.head(l)\n\t\tif !c.alone() {\n\t\t\tm.work += costOfLook * len(c.more.set.claims)\n\t\t}\n\t\tif !finished && (!m.fits(l, c.mode, c.weight) ||", new: "\tbefore := m.counter\n\tfor l.waiters > 0 {\n\t\tc := m.head(l)\n\t\tif !c.alone() {\n\t\t\tm.work += costOfLook * len(c.more.set.claims)\n\t\t}\n\t\tif !finished && (!m.fits(l, c.mode, c.weight) && m.counter != before+1 ||"},
		{name: "last in, first out", file: lock, old: "return a.index < b.index", new: "return a.index > b.index"},
		{name: "low priority first", file: lock, old: "return a.priority > b.priority", new: "return a.priority < b.priority"},
		{name: "one permit too many", file: lock, old: "uint64(l.used)+uint64(weight) <= uint64(l.limit)", new: "uint64(l.used)+uint64(weight) <= uint64(l.limit)+1"},
		{name: "a reader joins a writer", file: lock, old: "mode == l.mode && mode != Exclusive &&", new: "(mode == l.mode || l.mode == Exclusive) && mode != Exclusive &&"},
		{name: "who asks for a semaphore waits for a lock", file: lock, old: "return l.inUse() && l.limit != limit", new: "return l.limit > 0 && l.limit != limit"},
		{name: "who asks for a lock waits for a semaphore", file: lock, old: "return l.inUse() && l.limit != limit", new: "return limit > 0 && l.inUse() && l.limit != limit"},
		{name: "a set waits for a semaphore", file: "fsm/set.go", old: "case l.differs(c.Limit):", new: "case false:"},
		{name: "a name stays a semaphore when nobody uses it", file: lock, old: "\tif !l.inUse() {\n\t\tl.limit = 0\n\t}\n", new: ""},
		{name: "a place that rests is in no use", file: lock, old: "l.holders > 0 || l.waiters > 0 || l.resting > 0", new: "l.holders > 0 || l.waiters > 0"},
		{name: "permits are not given back", file: lock, old: "\t\tl.used -= c.weight\n", new: ""},
		{name: "the holder is not told that it is wanted", file: lock, old: "m.emit(EventQueued, c, ReasonNone)\n\tm.tell(l)\n", new: "m.emit(EventQueued, c, ReasonNone)\n"},
		{name: "holders are told again after each join", file: lock, old: "m.pivot = claim{name: l.name, token: l.told + 1}", new: "m.pivot = claim{name: l.name, token: 1}", suites: []string{"fsm"}},
		{name: "a release serves nobody", file: lock, old: "for l.waiters > 0 {", new: "for l.waiters > 1 {"},
		{name: "release by name", file: lock, old: "if l.holder.token == token {", new: "if l.holder != nil {"},
		{name: "release by any session", file: release, old: "c != nil && c.owner == s.owner", new: "c != nil"},
		{name: "overtake the queue", file: acquire, old: "free := l == nil || l.waiters == 0 && m.fits(l, c.Mode, weight)", new: "free := l == nil || m.fits(l, c.Mode, weight)"},
		{name: "a late duplicate is carried out again", file: acquire, old: "if m.over(s, c.Request) {\n\t\treturn Outcome{Code: CodeFinished}\n\t}\n\tif !m.roomForRequest(s) {\n\t\treturn Outcome{Code: CodeTooManyRequests}\n\t}\n\to := m.place", new: "if !m.roomForRequest(s) {\n\t\treturn Outcome{Code: CodeTooManyRequests}\n\t}\n\to := m.place"},
		{name: "a duplicate waits twice", file: acquire, old: "; live {\n\t\tif r.claim.name != c.Name {", new: "; live && r.claim.token != 0 {\n\t\tif r.claim.name != c.Name {"},
		{name: "a request that was given up is carried out when it comes", file: acquire, old: "\t\tcase m.roomForRequest(s):\n\t\t\tm.finish(s, number)\n", new: "\t\tcase m.roomForRequest(s):\n"},
		{name: "giving up leaves the grant", file: acquire, old: "m.end(s, r.claim, ending{kind: EventReleased, reason: ReasonWithdrawn})", new: "_ = r"},
		{name: "a released request is forgotten at once", file: acquire, old: "\tm.finish(s, c.request)\n\tif c.alone() {", new: "\tif c.alone() {"},
		{name: "a group that is not whole serves locks", file: acquire, old: "\tif !m.serving {\n\t\treturn Outcome{Code: CodeNotServing}\n\t}\n\ts, code", new: "\ts, code"},
	}, "model", "small", "fsm")
}

// sessions are defects of who is alive.
func sessions() []mutant {
	const session, node, teardown = "fsm/session.go", "fsm/node.go", "fsm/teardown.go"
	return of([]mutant{
		{name: "forget to check the renewal index", file: session, old: "if c.Renewed != s.renewed {", new: "if c.Renewed == 0 {"},
		{name: "an expiry by an older renewal counts", file: session, old: "if c.Renewed != s.renewed {", new: "if c.Renewed > s.renewed {"},
		{name: "nothing expires", file: session, old: "if c.Renewed != s.renewed {", new: "if c.Renewed == s.renewed {"},
		{name: "a session that ended opens again", file: session, old: "\tcase m.used(n, id.Number):\n", new: "\tcase m.used(n, id.Number) && m.sessions.Len() > 1<<20:\n"},
		{name: "a late keepalive renews", file: session, old: "case c.Seq > s.seq:", new: "case c.Seq > 0:"},
		{name: "a session said to be lost opens later", file: session, old: "\t\t\tm.retire(id) // the client", new: "\t\t\t// the client"},
		{name: "renewals are not heard of", file: session, old: "s.seq, s.renewed = c.Seq, m.commands", new: "s.seq = c.Seq"},
		{name: "a lock is served before all of a step has gone", file: teardown, old: "\t\tm.remove(c, how)\n\t\tm.names = append(m.names, c.name)\n", new: "\t\tm.remove(c, how)\n\tif l := m.lock(c.name); l != nil {\n\t\tm.settle(l)\n\t}\n"},
		{name: "the end of a session serves nobody", file: teardown, old: "\t\tif l := m.lock(name); l != nil {\n\t\t\tm.settle(l)\n\t\t}\n", new: "\t\t_ = name\n"},
		{name: "the answered floor takes one too many", file: session, old: "m.finished.prune(s.opened, acked)", new: "m.finished.prune(s.opened, acked+1)"},
		{name: "who is asked to let go is not told", file: "fsm/ask.go", old: "\tm.emit(EventWanted, held, ReasonNone).Detail = c.Reason\n", new: "", suites: []string{"fsm"}},
		{name: "a later reason replaces the first", file: "fsm/ask.go", old: "if _, before := m.asked.Get(c.Token); before {", new: "if before, _ := m.asked.Get(c.Token); before == c.Reason {", suites: []string{"fsm"}},
		{name: "a reason outlives its grant", file: "fsm/lock.go", old: "\t\t\tm.unask(c.token)\n", new: "", suites: []string{"fsm"}},
		{name: "a snapshot forgets who is asked", file: "fsm/snapshot.go", old: "\t\t\tb = appendText(b, 22, reason)\n", new: "\t\t\t_ = reason\n", suites: []string{"fsm"}},
		{name: "a late Forget forgets a later run", file: "fsm/forget.go", old: "ok && r.token == c.Token {", new: "ok {", suites: []string{"fsm"}},
		{name: "a keepalive changes no TTL", file: session, old: "\t\t\t\ts.ttl = c.TTL\n", new: "\t\t\t\t_ = c.TTL\n"},
		{name: "a change of the TTL that was overtaken says that it is carried out", file: session, old: "\t\t\tout.Code = CodeFinished\n", new: "\t\t\t_ = out\n"},
		{name: "a closed session goes on", file: session, old: "\tm.endSession(s, how, m.commands)\n\tm.carryOut(m.commands)\n", new: "\t_ = how\n"},
		{name: "a restart frees nothing", file: node, old: "if c.Place.proves(n.place) {", new: "if false {"},
		{name: "an unknown place is proof", file: node, old: "if c.Place.proves(n.place) {", new: "if c.Place == n.place {"},
		{name: "any later process is proof", file: node, old: "if c.Place.proves(n.place) {", new: "if true {"},
		{name: "a disk that was moved to another machine is proof", file: "fsm/command.go", old: "p.Boot != \"\" && p == former", new: "p.Boot != \"\" && p.Device == former.Device && p.File == former.File"},
		{name: "a copy of a disk on one machine is proof", file: "fsm/command.go", old: "p.Boot != \"\" && p == former", new: "p.Boot != \"\" && p.Boot == former.Boot"},
		{name: "a superseded process waits on", file: node, old: "\t\t\tm.withdrawAll(n, ReasonSuperseded)\n", new: ""},
		{name: "a superseded process renews", file: node, old: "case known && n.over:\n\t\treturn n, CodeStaleIncarnation", new: "case known && n.over && n.id == Node{}:\n\t\treturn n, CodeStaleIncarnation"},
		{name: "a superseded process acquires", file: session, old: "\tif code != CodeOK {\n\t\treturn nil, code\n\t}\n\tif s := m.session(id)", new: "\tif code != CodeOK && m.session(id) == nil {\n\t\treturn nil, code\n\t}\n\tif s := m.session(id)"},
		{name: "removal ends grants", file: node, old: "\tm.withdrawAll(m.leave(n), ReasonRemoved)\n", new: "\tm.endSessions(m.leave(n), m.commands, ending{reason: ReasonRemoved})\n"},
		{name: "a removed process waits on", file: node, old: "\tm.withdrawAll(m.leave(n), ReasonRemoved)\n", new: "\tm.leave(n)\n"},
		{name: "a late removal counts", file: node, old: "case !known || n.since != c.Since || n.gone != 0:", new: "case !known || n.gone != 0:"},
		{name: "a late revocation counts", file: teardown, old: "if upto = min(upto, m.commands); n.gone", new: "if upto = m.commands; n.gone"},
		{name: "a revocation spares former processes", file: node, old: "\tfor _, n := range m.processes(c.Node) {\n\t\tm.endSessions(n, c.Upto,", new: "\tfor _, n := range m.processes(c.Node) {\n\t\tif n.over {\n\t\t\tcontinue\n\t\t}\n\t\tm.endSessions(n, c.Upto,"},
		{name: "anybody may propose for anybody", file: "fsm/machine.go", old: "of != by && of != (Process{})", new: "of != by && of == (Process{1})"},
		{name: "an older process is welcome", file: node, old: "case known && (c.Incarnation < last.incarnation || last.departure == Gone),", new: "case known && last.departure == Gone,"},
		{name: "a node that left for good is welcome", file: node, old: "case known && (c.Incarnation < last.incarnation || last.departure == Gone),", new: "case known && c.Incarnation < last.incarnation,"},
		{name: "a late good-bye ends the next process", file: node, old: " && last.departure == Gone) {\n\t\tm.endProcess(c)\n", new: " && last.departure == Gone) {\n\t\tm.endProcess(&Goodbye{Node: c.Node, Incarnation: last.incarnation})\n"},
		{name: "a later good-bye lets a node that has left in again", file: node, old: "if known && (c.Incarnation < last.incarnation || c.Incarnation > last.incarnation && last.departure == Gone) {", new: "if known && c.Incarnation < last.incarnation {"},
	}, "model", "small", "fsm")
}

// teardowns are defects of what ends in steps.
func teardowns() []mutant {
	const teardown, timers = "fsm/teardown.go", "internal/lease/timers.go"
	return of([]mutant{
		{name: "what has ended is granted", file: "fsm/lock.go", old: "c.weight) || m.gone(c) ||", new: "c.weight) ||"},
		{name: "what is withdrawn is granted", file: teardown, old: "return c.token == 0 && c.index <= n.withdrawn", new: "return false && c.index <= n.withdrawn"},
		{name: "a session of a process that has ended goes on", file: teardown, old: "return s.opened <= n.ended", new: "return false && s.opened <= n.ended"},
		{name: "a session goes on until all of it has gone", file: "fsm/session.go", old: "if s == nil || m.ended(s) {", new: "if s == nil {"},
		{name: "a token of what has ended is current", file: "fsm/read.go", old: "return c != nil && !m.gone(c)", new: "return c != nil"},
		{name: "what has ended can be forced, too", file: "fsm/release.go", old: "held == nil || m.gone(held)", new: "held == nil"},
		{name: "who has ended closes a cycle", file: "fsm/blocked.go", old: "slices.Contains(t.goal, h.token) && !t.m.gone(h)", new: "slices.Contains(t.goal, h.token)"},
		{name: "one step takes all", file: teardown, old: "for left := m.step(); left > 0; {", new: "for left := 1 << 40; left > 0; {"},
		{name: "a step is taken twice", file: teardown, old: "!left || c.Last != last {", new: "!left || c.Last > last {"},
		{name: "the end of an end is the end of an older one", file: teardown, old: "\t\t\tupto = max(upto, o.upto)\n", new: ""},
		{name: "an entry does all that is in it", file: "fsm/effort.go", old: "m.work >= stepsOfEntry", new: "m.work >= 1<<40"},
		{name: "an entry searches without end", file: "fsm/effort.go", old: " || m.traced >= tracerSteps", new: ""},
		{name: "all holders are told at once", file: "fsm/lock.go", old: "later = m.left <= 0; later {\n\t\t\treturn false", new: "later = m.left < -1<<40; later {\n\t\t\treturn false"},
		{name: "who is still to be told never is", file: "fsm/lock.go", old: "m.postpone(l, true)", new: "m.postpone(l, false)"},
		{name: "a crowd is served at once", file: "fsm/lock.go", old: "later = m.left <= 0; later {\n\t\t\tbreak", new: "later = m.left < -1<<40; later {\n\t\t\tbreak"},
		{name: "who is still to be served never is", file: "fsm/lock.go", old: "m.postpone(l, later)", new: "m.postpone(l, false)"},
		{name: "who waits for a finished key runs it", file: "fsm/lock.go", old: "m.isDone(l.name), false", new: "false, false"},
		{name: "who asks while a crowd is sent away joins it", file: "fsm/acquire.go", old: "(l == nil || l.unsettled)", new: "l == nil"},
		{name: "snapshot without who is still to be served", file: "fsm/snapshot.go", old: "21, l.unsettled", new: "21, false"},
		{name: "nobody is told that something is left", file: "fsm/machine.go", old: "left && !before {", new: "left && before {"},
		{name: "snapshot without what is left of an end", file: "fsm/snapshot.go", old: "f.add(t.record(f.record[:0]))", new: "true"},
		{name: "snapshot without the last step", file: "fsm/snapshot.go", old: "appendUint(b, 11, g.stepped)", new: "b"},
		{name: "nobody takes the next step", file: timers, old: "return true, t.step.at.Add(t.lag(raftLeader))", new: "return false, t.step.at.Add(t.lag(raftLeader))"},
		{name: "a step that was lost is not proposed again", file: timers, old: "t.step.at = now.Add(t.retry)", new: "t.step.at = now.Add(1000 * time.Hour)"},
	}, "model", "fsm", "internal/lease")
}

// snapshots are defects of what is kept, and of copies.
func snapshots() []mutant {
	const snapshot, span = "fsm/snapshot.go", "fsm/span.go"
	return of([]mutant{
		{name: "snapshot without the queue", file: snapshot, old: "if l.waiters == 0 {\n\t\treturn true", new: "if l.waiters >= 0 {\n\t\treturn true"},
		{name: "snapshot without finished requests", file: snapshot, old: "\tm.finished.tree.Scan(func(s span) bool { return f.add(s.record(f.record[:0])) })\n", new: ""},
		{name: "snapshot without used session numbers", file: snapshot, old: "\tm.numbers.tree.Scan(func(s span) bool { return f.add(s.record(f.record[:0])) })\n", new: ""},
		{name: "snapshot without the token counter", file: snapshot, old: "\tb = appendUint(b, 5, g.counter)\n", new: ""},
		{name: "snapshot without the number of the last keepalive", file: snapshot, old: "\tb = appendUint(b, 5, s.seq)\n", new: ""},
		{name: "a snapshot shares locks that go on changing", file: "fsm/lock.go", old: "if l.epoch != m.epoch {", new: "if l.epoch > m.epoch {"},
		{name: "a snapshot shares sessions that go on changing", file: "fsm/session.go", old: "if ref.s.epoch != m.epoch {", new: "if ref.s.epoch > m.epoch {"},
		{name: "the last number of a run is forgotten", file: span, old: "return ok && n <= s.high", new: "return ok && n < s.high"},
		{name: "the index of the log numbers the commands", file: "fsm/machine.go", old: "\t\tm.applied = index\n", new: "\t\tm.applied, m.commands = index, index\n"},
		{name: "an entry is applied twice", file: "fsm/machine.go", old: "if index <= m.applied {", new: "if index < m.applied {"},
	}, "model", "small", "fsm")
}

// validities are defects of the arithmetic of time.
func validities() []mutant {
	const validUntil, plan, expiries, numbers = "internal/lease/lease.go", "internal/lease/plan.go", "internal/lease/expiries.go", "internal/lease/numbers.go"
	return of([]mutant{
		{name: "clocks do not drift", file: validUntil, old: "max(0, ttl-lost-Margin(ttl))", new: "max(0, ttl-0*lost-Margin(ttl))"},
		{name: "no margin", file: validUntil, old: "max(0, ttl-lost-Margin(ttl))", new: "max(0, ttl-lost)"},
		{name: "the holder relies on twice the TTL", file: validUntil, old: "max(0, ttl-lost-Margin(ttl))", new: "max(0, 2*ttl-lost-Margin(ttl))"},
		{name: "count from the reply instead of the send", file: plan, old: "if p.extend(s, min(sent, now)) &&", new: "if p.extend(s, max(sent, now)) &&"},
		{name: "a new TTL counts from the reply instead of the send", file: plan, old: "\t\tp.extend(s, min(sent, now))\n", new: "\t\tp.extend(s, max(sent, now))\n"},
		{name: "a shorter TTL may be relied on no less", file: plan, old: "\ts.validUntil = min(s.validUntil, s.most)\n", new: ""},
		{name: "a renewal hides a shorter TTL that may come", file: plan, old: "min(ValidUntil(sent, s.ttl, p.drift), s.most)", new: "ValidUntil(sent, s.ttl, p.drift)"},
		{name: "a late answer brings an old TTL back", file: plan, old: "if change >= s.done {", new: "if change >= 0 {"},
		{name: "a TTL that is confirmed ends what a later one may leave", file: plan, old: "if change == s.asked {", new: "if change <= s.asked {"},
		{name: "a lost session is renewed", file: plan, old: "if s == nil || now >= s.validUntil {\n\t\treturn 0, false, false", new: "if s == nil {\n\t\treturn 0, false, false"},
		{name: "a lost session has a new TTL", file: plan, old: "if s == nil || now >= s.validUntil {\n\t\treturn 0, 0, false", new: "if s == nil {\n\t\treturn 0, 0, false"},
		{name: "renew once and never again", file: plan, old: "\ts.renew = sent.Add(time.Duration(third", new: "\ts.renew = validUntil.Add(time.Duration(third"},
		{name: "a lease ends when its renewal is due", file: plan, old: "if now >= s.validUntil {\n\t\t\ta.Lost", new: "if now >= s.renew {\n\t\t\ta.Lost"},
		{name: "the plan looks too late", file: plan, old: "\tat := s.validUntil\n", new: "\tat := s.validUntil.Add(s.ttl)\n"},
		{name: "a renewal does not restart the replica's clock", file: expiries, old: "\ts.applied = max(s.applied, applied)\n", new: ""},
		{name: "replicas are impatient", file: expiries, old: "s.due = s.applied.Add(max(0, ttl))", new: "s.due = s.applied.Add(max(0, ttl/2))"},
		{name: "only the raft leader ever proposes an expiry", file: expiries, old: "\tlag := e.stagger\n", new: "\tlag := e.stagger + 1000*time.Hour\n", suites: []string{"internal/lease"}},
		{name: "restart the TTL on a new raft leader", file: expiries, old: "\tif raftLeader {\n\t\tlag = 0\n", new: "\tif raftLeader {\n\t\tlag = 0\n\t\tfor _, s := range e.sessions {\n\t\t\ts.applied, s.due = now, now.Add(s.ttl)\n\t\t}\n"},
		{name: "an expiry that was lost is not proposed again", file: expiries, old: "s.due = now.Add(e.retry)", new: "s.due = Never"},
		{name: "the lowest number in use is too high", file: numbers, old: "return n.floor + 1 }", new: "return n.last + 1 }"},
		{name: "finished numbers are never forgotten", file: numbers, old: "\t\tn.floor = high\n", new: "", suites: []string{"internal/lease"}},
	}, "model", "internal/lease")
}
