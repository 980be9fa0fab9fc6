package main

// together are defects of how commands share an entry of the log.
func together() []mutant {
	const flights, snapshots = "internal/consensus/together.go", "internal/consensus/snapshots.go"
	return of([]mutant{
		{name: "any command is let into a batch", file: "fsm/batch.go", old: "unknown == nil && !op(cmd[1]).travels()", new: "unknown == nil && cmd[1] == 0", suites: []string{"fsm"}},
		{name: "a batch is carried out up to what is unknown", file: "fsm/batch.go", old: "errors.Is(err, ErrUnsupported) {\n\t\treturn Outcome{Code: CodeUnsupported}\n\t} else if err != nil {", new: "err != nil && !errors.Is(err, ErrUnsupported) {", suites: []string{"fsm"}},
		{name: "a batch begins with the outcomes of the one before", file: "fsm/batch.go", old: "\tm.outcomes = m.outcomes[:0]\n", new: "", suites: []string{"fsm", "model"}},
		{name: "all of a batch have the outcome of its first", file: flights, old: "outcome.Each[i]", new: "outcome.Each[i-i]"},
		{name: "who has given up travels", file: flights, old: "left := t.line.Leave(c)", new: "left := c == nil"},
		{name: "who waits is not told that nothing runs any more", file: flights, old: "\t\tg.carry(f) // nothing runs", new: "\t\t_ = f // nothing runs"},
		{name: "the last come goes first", file: "internal/batch/batch.go", old: "for c := l.first; c != nil && len(together) < CommandsMax; c = l.first {", new: "for c := l.last; c != nil && len(together) < CommandsMax; c = l.last {", suites: []string{"internal/batch"}},
		{name: "snapshots go by entries alone", file: snapshots, old: "c.commands.Load() >= c.commandsMax ||", new: "", suites: []string{"internal/consensus:ARestartApplies"}},
	}, "internal/consensus:Travel|GivesUp|ALostAnswer")
}
