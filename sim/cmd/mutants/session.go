package main

// sides are defects of a node's side of its sessions. The model runs the very code.
func sides() []mutant {
	const dir = "internal/session/"
	const table, session, validity, call, grant, renew, news, debts = dir + "table.go", dir + "session.go", dir + "validity.go",
		dir + "call.go", dir + "grant.go", dir + "renew.go", dir + "news.go", dir + "debts.go"
	return of([]mutant{
		{name: "validity of the first grant counts from the reply", file: table, old: "s.first, !s.manual || queued", new: "now, !s.manual || queued"},
		{name: "a session is opened before it has its validity", file: table, old: "\t\tt.mu.Lock() // until the session has its validity", new: "\t\ts.mu.Unlock()\n\t\tt.mu.Lock()\n\t\ts.mu.Lock() //", suites: []string{"internal/session:CallsThatOpenASession"}},
		{name: "a call that waits keeps its manual session for a TTL", file: table, old: "!s.manual || queued))", new: "!s.manual))"},
		{name: "a session that is lost is not closed", file: table, old: "\t\tt.owe(s, func(d *Debt) { d.close, d.lost = true, !errors.Is(cause, ErrReleased) })\n", new: "\t\t_ = errors.Is(cause, ErrReleased)\n"},
		{name: "the holders of a lost session are not told", file: table, old: "\t\tg.End(err)\n", new: "\t\t_ = g\n"},
		{name: "a session that is over is given to the next call", file: table, old: "\tt.unshare(s)\n\tt.mu.Lock()\n\tt.plan.Remove", new: "\tt.mu.Lock()\n\tt.plan.Remove"},
		{name: "the number of a session stays in use", file: table, old: "\t\tt.numbers.Finish(s.id.Number)\n", new: ""},

		{name: "the first command of a session is the latest", file: session, old: "if s.first == 0 {", new: "if !s.opened {"},
		{name: "a call may forget an answer that it waits for", file: session, old: "return n, s.requests.Lowest(), nil", new: "return n, n, nil"},
		{name: "a grant that is over is taken", file: session, old: "if c.revoked != nil {", new: "if c.revoked != nil && c.grant != nil {"},
		{name: "who takes its grant late is not told that it is wanted", file: session, old: "\tif c.wanted {\n", new: "\tif c.wanted && c.waiter != nil {\n"},
		{name: "a lease that has ended hangs on its session", file: session, old: "c != nil && c.grant == g {", new: "c != nil && c.grant == nil {"},
		{name: "a grant wakes nobody", file: session, old: "\t\tc.waiter.Granted(token)\n", new: ""},
		{name: "a call that waits for what is over is not woken", file: session, old: "\t\tc.waiter.Over(cause)\n", new: ""},
		{name: "the end of a session wakes nobody", file: session, old: "\t\t\tc.waiter.Over(err)\n", new: ""},
		{name: "a session is closed before the group knows of a rest", file: session, old: " || s.pins > 0", new: ""},
		{name: "an unused session is kept", file: session, old: "return now-s.idle > lease.Instant(s.ttl.Load())", new: "return now < s.idle"},

		{name: "a lease that lapsed is renewed", file: validity, old: "\t\tif lease.Instant(old) == never {\n\t\t\treturn false\n\t\t}\n", new: ""},
		{name: "the group's word does not end a lease at once", file: validity, old: "\ts.groupCause.CompareAndSwap(nil, &cause)\n\ts.until.Store(int64(never))\n", new: "\ts.groupCause.CompareAndSwap(nil, &cause)\n"},
		{name: "a session that the group has ended begins to be valid", file: validity, old: "if s.groupCause.Load() == nil {", new: "if s.over == nil {"},

		{name: "a refused call leaves its request open", file: call, old: "\t\tc.GiveUp(unknown && state == fsm.RequestUnknown)\n", new: "\t\t_ = unknown\n"},
		{name: "a session that the group has lost is asked again", file: call, old: "\t\ts.endedByGroup(ErrExpired)\n\t\ts.table.Lose(s, ErrExpired)\n", new: "\t\tc.GiveUp(false)\n"},
		{name: "a call that gave up is not withdrawn", file: call, old: "\t\ts.table.Withdraw(s, c.Request)\n", new: "\t\ts.Finish(c.Request)\n"},
		{name: "a call that gave up unheard leaves its session", file: call, old: "\t\ts.table.discard(s)\n", new: ""},
		{name: "a manual session outlives the call that gave up", file: call, old: "\t\ts.table.Lose(s, ErrReleased)\n", new: "\t\ts.Finish(c.Request)\n"},

		{name: "a minimum hold is forgotten at the release", file: grant, old: "left := g.minHold - time", new: "left := 0*g.minHold - time"},
		{name: "a minimum hold counts from the release", file: grant, old: "g.minHold - time.Duration(now-g.since)", new: "g.minHold - 0*time.Duration(now-g.since)", suites: []string{"internal/session:HowLongAPlace"}},
		{name: "a delay follows a release, too", file: grant, old: "if errors.Is(g.Err(), ErrLost) {", new: "if g.Err() != nil {", suites: []string{"internal/session:HowLongAPlace"}},
		{name: "what its holder gives up as lost has no delay", file: grant, old: "left = max(left, g.delay)", new: "left = max(left, 0*g.delay)", suites: []string{"internal/session:HowLongAPlace"}},
		{name: "a lease that its holder leaves is lost twice", file: grant, old: "\tif g.err != nil {\n\t\tg.mu.Unlock()\n\t\treturn false\n\t}\n", new: ""},
		{name: "a session stays in use after a rest", file: grant, old: "\tif g.mayRest() {\n\t\tg.session.unpin()\n\t}\n", new: ""},
		{name: "the session of a released manual lease stays", file: grant, old: "\tg.left()\n\tg.session.table.closed(g.session)\n", new: "\tg.left()\n"},
		{name: "a lease whose release was not answered is forgotten", file: grant, old: "d.release = append(d.release, grant) })", new: "_ = grant })"},

		{name: "validity of a renewal counts from the reply", file: renew, old: "t.plan.Renewed(s.id.Number, k.sent, now)", new: "t.plan.Renewed(s.id.Number, now, now)"},
		{name: "the outcome of a keepalive is not looked at", file: renew, old: "if out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number) {", new: "if out.Code != fsm.CodeOK {"},
		{name: "sessions are not renewed", file: renew, old: "\t\tif !t.takeOff() {\n", new: "\t\tif !t.takeOff() || len(batch) > 0 {\n"},
		{name: "the place of a keepalive is not given back", file: renew, old: "\tif k.flies {\n", new: "\tif !k.flies {\n"},
		{name: "all keepalives have one number", file: renew, old: "Seq: t.seq.Add(1)}", new: "Seq: t.seq.Load() + 1}"},
		{name: "the group may forget the lowest session", file: renew, old: "k.Command.Lowest = t.numbers.Lowest()", new: "k.Command.Lowest = t.numbers.Lowest() + 1"},
		{name: "what the group has ended is not told", file: renew, old: "\t\tt.Lose(s, ErrExpired)\n\t\tt.forget(s)\n", new: "\t\t_ = s\n"},
		{name: "a lease that was freed by force lives on", file: renew, old: "\t\tr.grant.End(r.err)\n", new: "\t\t_ = r\n"},

		{name: "a forced release is not told to the holder", file: news, old: "\t\tt.revoke(s, e.Request, forced(e.Detail))\n", new: "\t\t_ = e.Detail\n"},
		{name: "who waits is not told that its node was removed", file: news, old: "fsm.ReasonSuperseded, fsm.ReasonRemoved:\n", new: "fsm.ReasonSuperseded:\n"},
		{name: "a holder is not told that it is wanted", file: news, old: "\t\ts.wanted(e.Request, e.Detail)\n", new: ""},
		{name: "a snapshot hides grants from those who wait", file: news, old: "\t\t\t\ts.granted(r.number, token)\n", new: "\t\t\t\t_ = token\n"},
		{name: "a snapshot hides waiters from holders", file: news, old: "\t\t\t\t\ts.wanted(r.number, \"\")\n", new: ""},
		{name: "a snapshot hides the end of a session", file: news, old: "\t\tif over {\n", new: "\t\tif over && s.manual {\n"},
		{name: "a snapshot hides the end of a grant", file: news, old: "\t\t\t\tt.revoke(s, r.number, ErrForced)\n", new: ""},

		{name: "a request that was withdrawn stays open", file: debts, old: "\t\td.s.Finish(request)\n", new: "\t\t_ = request\n"},
		{name: "a session that a withdrawn call has opened is not known", file: debts, old: "\t\td.s.table.Opened(d.s, false, now)\n", new: ""},
		{name: "a session that was closed is kept", file: debts, old: "\t\td.s.table.forget(d.s)\n", new: ""},
		{name: "a release with a rest is not the end of its session", file: debts, old: "\t\td.s.table.closed(d.s)\n", new: ""},
		{name: "the end of a session overtakes a rest", file: debts, old: "\tcase len(d.rests) > 0:\n\t\treturn", new: "\tcase len(d.rests) > 0 && !d.close:\n\t\treturn"},
	}, "model", "internal/session")
}

// changes are defects of what a node's side does with a new TTL, and with the request to let go.
func changes() []mutant {
	const dir = "internal/session/"
	const session, renew, news = dir + "session.go", dir + "renew.go", dir + "news.go"
	return of([]mutant{
		{name: "a snapshot hides that a holder is asked", file: news, old: "\t\t\t\t\ts.wanted(r.number, reason)\n", new: "\t\t\t\t\t_ = reason\n", suites: []string{"internal/session:WhatAnEvent"}},
		{name: "who takes its grant late is not told that it is asked", file: session, old: "\t\tg.holder.Wanted(c.asked)\n", new: "\t\t_ = c.asked\n", suites: []string{"internal/session:WhatAnEvent"}},
		{name: "a shorter TTL counts from its outcome", file: renew, old: "\t\ts.shorten(until)\n", new: "\t\t_ = until\n"},
		{name: "a change of the TTL is not known to the plan", file: renew, old: "t.plan.Retime(s.id.Number, k.Command.Seq, ttl, now)", new: "t.plan.Retime(0, k.Command.Seq, ttl, now)", suites: []string{"internal/session:EveryHistory"}},
		{name: "an answer from before a change of the TTL counts", file: renew, old: "\tif out.Code == fsm.CodeFinished {\n\t\treturn\n\t}\n", new: "\tif out.Code == fsm.CodeFinished {\n\t\tout.Code = fsm.CodeOK\n\t}\n"},
	}, "model", "internal/session")
}
