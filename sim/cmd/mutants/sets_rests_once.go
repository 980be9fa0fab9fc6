package main

// setsRestsOnce are defects of what is not a plain lock: sets, rests, Once keys.
func setsRestsOnce() []mutant {
	const once, set, rest, teardown, snapshot = "fsm/once.go", "fsm/set.go", "fsm/rest.go", "fsm/teardown.go", "fsm/snapshot_records.go"
	return of([]mutant{
		{name: "a finished key runs again", file: once, old: "if r, ok := m.keys.Get(&onceRecord{name: name}); ok {", new: "if r, ok := m.keys.Get(&onceRecord{name: name}); ok && r.keep == 0 {"},
		{name: "a run that is over finishes the key of the next", file: once, old: "m.heldBy(s, l, c.Token) != nil {", new: "l != nil && l.holder != nil {"},
		{name: "a finished key leaves its waiters waiting", file: once, old: "\tm.settle(l)\n\tm.forgetKeys", new: "\tm.forgetKeys"},
		{name: "a turn counts twice", file: once, old: "if !ok || k.turns[len(k.turns)-1] != c.Last {", new: "if !ok {"},
		{name: "a key is forgotten a turn early", file: once, old: "return int((time+period-1)/period) + 1", new: "return int((time+period-1)/period)"},
		{name: "a sweep forgets what is not over", file: once, old: "upto = min(upto, k.over(keep))", new: "_ = k.over(keep)"},
		{name: "a set takes what is held", file: set, old: "if !m.fits(l, c.mode, c.weight) || m.head(l) != c {", new: "if m.head(l) != c {"},
		{name: "a set overtakes", file: set, old: "if !m.fits(l, c.mode, c.weight) || m.head(l) != c {", new: "if !m.fits(l, c.mode, c.weight) {"},
		{name: "a set that cannot be had whole is taken", file: set, old: "case taken == nil && (l.waiters > 0 || !m.fits(l, c.Mode, 1)):", new: "case taken == nil && i == 0 && (l.waiters > 0 || !m.fits(l, c.Mode, 1)):"},
		{name: "a rest takes no room", file: rest, old: "\tl.used += r.weight\n", new: ""},
		{name: "the end of a rest serves nobody", file: rest, old: "\tm.settle(l)\n\treturn Outcome{}", new: "\treturn Outcome{}"},
		{name: "a rest ends though its grant was another", file: rest, old: "m.rests.Delete(&rest{name: c.Name, token: c.Token})", new: "m.rests.Delete(&rest{name: c.Name, token: m.counter})"},
		{name: "what is lost does not rest", file: teardown, old: "\t\t\thow.rest = c.more.delay\n", new: "\t\t\t_ = c.more.delay\n"},
		{name: "snapshot without the turns of Once keys", file: snapshot, old: "appendPacked(appendUint(f.record[:0], 1, keep), 2, k.turns)", new: "appendPacked(appendUint(f.record[:0], 1, keep), 2, k.turns[:1])"},
		{name: "snapshot without the weight of a rest", file: snapshot, old: "\tb = appendUint(b, 6, uint64(r.weight))\n\treturn appendUint(b, 7, uint64(r.limit))", new: "\treturn appendUint(b, 7, uint64(r.limit))"},
		{name: "a set is granted in part", file: set, old: "\tfor _, c := range all.claims {\n\t\tm.hold(m.lock(c.name), c)\n", new: "\tfor i, c := range all.claims {\n\t\tif i > 1 {\n\t\t\tbreak\n\t\t}\n\t\tm.hold(m.lock(c.name), c)\n"},
		{name: "each name of a set has a token of its own", file: set, old: "\tm.counter++\n\tfor _, c := range all.claims {", new: "\tfor _, c := range all.claims {\n\t\tm.counter++"},
		{name: "a set is given back in part", file: "fsm/acquire.go", old: "\tfor _, c := range c.more.set.claims {\n\t\tm.remove(c", new: "\tfor _, c := range c.more.set.claims[:1] {\n\t\tm.remove(c"},
		{name: "a set is lost in part", file: teardown, old: "\t\tall = c.more.set.claims\n", new: "\t\tall = c.more.set.claims[:1]\n"},
		{name: "the other locks of a set serve nobody", file: "fsm/lock.go", old: "\tfor len(m.pending) > 0 {", new: "\tfor len(m.pending) > 1<<20 {"},
		{name: "a stale holder writes the value", file: "fsm/release.go", old: "\tif held == nil {\n\t\treturn Outcome{Code: CodeStaleToken} // for ever", new: "\tif held == nil && l != nil {\n\t\theld = l.holder\n\t}\n\tif held == nil {\n\t\treturn Outcome{Code: CodeStaleToken} // for ever"},
		{name: "a late duplicate writes the value again", file: "fsm/release.go", old: "\tif m.over(s, c.Request) {\n", new: "\tif m.over(s, c.Request) && c.Token == 0 {\n"},
		{name: "the value of a grant is not told", file: "fsm/lock.go", old: "\tif v != nil {\n\t\te.Value = []byte(v.text)\n\t}", new: "\t_ = e"},
		{name: "snapshot without rests", file: "fsm/snapshot.go", old: "\tm.rests.Scan(func(r *rest) bool { return f.add(r.record(f.record[:0])) })\n", new: ""},
		{name: "snapshot without finished Once keys", file: snapshot, old: "\tm.keys.Scan(func(r *onceRecord) bool { return f.add(r.record(f.record[:0], places[r.owner.id])) })\n", new: "\tm.keys.Scan(func(*onceRecord) bool { return false })\n"},
		{name: "snapshot without the delay of a lock", file: "fsm/snapshot.go", old: "\tb = appendUint(b, 15, c.more.delay)\n", new: ""},
	}, "model", "small", "fsm")
}

// timers are defects of what times rests and the periods of Once keys.
func timers() []mutant {
	const timers = "internal/lease/timers.go"
	return of([]mutant{
		{name: "a rest is due early", file: timers, old: "due := applied.Add(max(0, d))", new: "due := applied.Add(max(0, d/2))"},
		{name: "a turn counts from the one before the last", file: timers, old: "if !ok || last.index != k.Last {\n\t\t\tlast = lastSeen{k.Last, now}", new: "if !ok || last.index != k.Last {\n\t\t\tif !ok {\n\t\t\t\tlast.at = now\n\t\t\t}\n\t\t\tlast.index = k.Last"},
		{name: "a turn that was lost is not proposed again", file: timers, old: "last.at.Add(now.Sub(at) + t.retry)", new: "last.at.Add(1000 * time.Hour)"},
		{name: "only the raft leader times what rests", file: timers, old: "\treturn t.stagger\n", new: "\treturn t.stagger + 1000*time.Hour\n", suites: []string{"internal/lease"}},
	}, "model", "internal/lease")
}
