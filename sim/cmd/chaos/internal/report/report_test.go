package report_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/frozen"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/report"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const second = time.Second

func at(node int, from, to time.Duration, l story.Line) story.Line {
	l.From, l.To, l.Node, l.Life = from, to, node, 1
	return l
}

func event(node int, when time.Duration, e history.Event) story.Line {
	return at(node, when, when, story.Line{Kind: story.KindEvent, Event: &e})
}

func status(node int, when time.Duration, leader string, ready bool) story.Line {
	return at(node, when, when, story.Line{Kind: story.KindStatus, Status: &story.Status{
		ID: string(rune('a' + node)), RaftLeader: leader, Term: 1, Voters: []string{"a", "b", "c"}, Served: ready, Ready: ready,
	}})
}

func fault(id int, from, to time.Duration, name, text string, nodes ...int) []story.Line {
	f := &story.Fault{ID: id, Name: name, Nodes: nodes, Text: text}
	return []story.Line{at(-1, from, from, story.Line{Kind: story.KindFault, Fault: f}), at(-1, to, to, story.Line{Kind: story.KindFaultEnd, Fault: f})}
}

// small is a run of twelve seconds in which node 0 is stopped while it holds a lock, node 1 gets
// it, and node 2 is killed.
func small(more ...story.Line) []story.Line {
	lines := []story.Line{at(-1, 0, 0, story.Line{Kind: story.KindRun, Run: &story.Run{
		Seed: 7, Nodes: 3, Voters: 3, TTL: 2 * second, Duration: 10 * second, Skipped: []string{"full disk: not <here>"},
	}})}
	for i := range 3 {
		lines = append(lines, at(i, 0, 0, story.Line{Kind: story.KindStart}), status(i, second, "a", true))
	}
	lines = append(lines, fault(1, 2*second, 6*second, "stop holder", "of the ledger's lock", 0)...)
	lines = append(lines, fault(2, 4700*time.Millisecond, 5500*time.Millisecond, "partition", "[2] from [0 1]", 2)...)
	lines = append(lines, fault(3, 7*second, 9*second, "kill", "", 2)...)
	ask := history.Event{Kind: history.Asked, Lock: story.LedgerLock, Wait: true, Until: 9 * second, Weight: 1, Limit: 1}
	for op := range uint64(2) {
		ask.Op = op + 1
		lines = append(lines, event(int(op), 1100*time.Millisecond, ask))
	}
	lines = append(lines,
		event(0, 1200*time.Millisecond, history.Event{Kind: history.Granted, Op: 1, Lock: story.LedgerLock, Token: 10}),
		event(0, 1300*time.Millisecond, history.Event{Kind: history.Held, Lock: story.LedgerLock, Token: 10, Remaining: 1800 * time.Millisecond}),
		status(1, 4*second, "b", true),
		event(1, 3500*time.Millisecond, history.Event{Kind: history.Granted, Op: 2, Lock: story.LedgerLock, Token: 11}),
		event(1, 3500*time.Millisecond, history.Event{Kind: history.Held, Lock: story.LedgerLock, Token: 11, Remaining: 1800 * time.Millisecond}),
		event(1, 4500*time.Millisecond, history.Event{Kind: history.Release, Lock: story.LedgerLock, Token: 11}),
		event(1, 4600*time.Millisecond, history.Event{Kind: history.Released, Lock: story.LedgerLock, Token: 11}),
		at(0, 2*second, 6*second, story.Line{Kind: story.KindStall}),
		event(0, 6*second, history.Event{Kind: history.Ended, Lock: story.LedgerLock, Token: 10, Cause: history.CauseExpired}),
		at(0, 6*second, 6*second, story.Line{Kind: story.KindWrite, Text: story.Stale}),
		status(0, 6500*time.Millisecond, "b", false), status(1, 6500*time.Millisecond, "b", true), status(0, 7*second, "b", true),
		at(2, 7*second, 7*second, story.Line{Kind: story.KindExit, Text: "signal: killed"}),
		at(2, 9*second, 9*second, story.Line{Kind: story.KindStart}), status(2, 10*second, "b", true),
		event(-1, 10*second, history.Event{Kind: history.Over}))
	for i := range 3 {
		lines = append(lines, event(i, 10*second+time.Duration(i+1)*100*time.Millisecond, history.Event{Kind: history.Served}))
	}
	lines = append(lines, more...)
	return append(lines, at(2, 12*second, 12*second, story.Line{Kind: story.KindNote, Text: story.Drained}))
}

func judge(t *testing.T, lines []story.Line) story.Verdict {
	t.Helper()
	v, err := story.Judge(lines, []story.Entry{{N: 1, Token: 10}}, []story.Entry{{N: 1, Token: 11, Node: 1}, {N: 1, Token: 10}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wrong(text string) story.Line {
	return at(1, 5*second, 5*second, story.Line{Kind: story.KindWrong, Text: text})
}

func TestTheTextSaysWhatHappened(t *testing.T) {
	t.Parallel()
	frozen.Golden(t, "testdata/vacuous.txt", []byte(report.Text(judge(t, small()))))
	frozen.Golden(t, "testdata/violation.txt", []byte(report.Text(judge(t, small(wrong("the process ended by itself"))))))
}
