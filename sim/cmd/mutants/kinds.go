package main

// kinds are defects of what is not a plain lock: Once keys, sets, rests.
func kinds() []mutant {
	const once, set, rest, session, snapshot = "fsm/once.go", "fsm/set.go", "fsm/rest.go", "fsm/session.go", "fsm/snapshot_kinds.go"
	return of([]mutant{
		{name: "a finished key runs again", file: once, old: "if r, ok := m.keys.Get(&onceRecord{name: name}); ok {", new: "if r, ok := m.keys.Get(&onceRecord{name: name}); ok && r.keep == 0 {"},
		{name: "a run that is over finishes the key of the next", file: once, old: "m.heldBy(s, l, c.Token) != nil {", new: "l != nil && l.holder != nil {"},
		{name: "a finished key leaves its waiters waiting", file: once, old: "\t\tm.claims = append(m.claims, c)\n\t}\n\tfor _, c := range m.claims {\n\t\tm.finish", new: "\t\tm.claims = append(m.claims[:0], c)\n\t}\n\tfor _, c := range m.claims {\n\t\tm.finish"},
		{name: "a turn counts twice", file: once, old: "if !ok || k.turns[len(k.turns)-1] != c.Last {", new: "if !ok {"},
		{name: "a key is forgotten a turn early", file: once, old: "return int((time+period-1)/period) + 1", new: "return int((time+period-1)/period)"},
		{name: "a sweep forgets what is not over", file: once, old: "upto = min(upto, k.over(keep))", new: "_ = k.over(keep)"},
		{name: "a set takes what is held", file: set, old: "if !m.fits(l, c.mode, c.weight) || m.head(l) != c {", new: "if m.head(l) != c {"},
		{name: "a set overtakes", file: set, old: "if !m.fits(l, c.mode, c.weight) || m.head(l) != c {", new: "if !m.fits(l, c.mode, c.weight) {"},
		{name: "a set that cannot be had whole is taken", file: set, old: "case taken == nil && (l.waiters > 0 || !m.fits(l, c.Mode, 1)):", new: "case taken == nil && i == 0 && (l.waiters > 0 || !m.fits(l, c.Mode, 1)):"},
		{name: "a rest takes no room", file: rest, old: "\tl.used += r.weight\n", new: ""},
		{name: "the end of a rest serves nobody", file: rest, old: "\tm.settle(l)\n\treturn Outcome{}", new: "\treturn Outcome{}"},
		{name: "a rest ends though its grant was another", file: rest, old: "m.rests.Delete(&rest{name: c.Name, token: c.Token})", new: "m.rests.Delete(&rest{name: c.Name, token: m.counter})"},
		{name: "what is lost does not rest", file: session, old: "\t\thow.rest = c.more.delay\n", new: "\t\t_ = c.more.delay\n"},
		{name: "snapshot without the turns of Once keys", file: snapshot, old: "appendPacked(appendUint(f.record[:0], 1, keep), 2, k.turns)", new: "appendPacked(appendUint(f.record[:0], 1, keep), 2, k.turns[:1])"},
		{name: "snapshot without the weight of a rest", file: snapshot, old: "\tb = appendUint(b, 6, uint64(r.weight))\n\treturn appendUint(b, 7, uint64(r.limit))", new: "\treturn appendUint(b, 7, uint64(r.limit))"},
	}, "fsm")
}
