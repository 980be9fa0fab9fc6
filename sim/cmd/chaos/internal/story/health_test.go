package story_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// health returns when a node was well, as text, and when there was a majority.
func health(lines []story.Line, node int) (well, majority string) {
	for _, e := range story.Merge(lines) {
		switch {
		case e.Kind == history.Well && e.Node == node:
			well += "well at " + e.At.String() + " "
		case e.Kind == history.Ill && e.Node == node:
			well += "ill at " + e.At.String() + " "
		case e.Kind == history.Quorum && e.OK:
			majority += "from " + e.At.String() + " "
		case e.Kind == history.Quorum:
			majority += "to " + e.At.String() + " "
		}
	}
	return well, majority
}

func join(parts ...[]story.Line) (all []story.Line) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func one(l story.Line) []story.Line { return []story.Line{l} }

func TestANodeIsWellOnceItHasServedAfterItsFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines          []story.Line
		well, majority string
	}{
		"from its first answer": {begun(), "well at 1s ", "from 1s "},
		"an answer that was asked for before the end of the fault does not count": {
			join(begun(), fault(1, 2*time.Second, 4*time.Second, "partition", 1),
				one(status(1, 3900*ms, 4100*ms, "a", true)), one(status(1, 4200*ms, 4300*ms, "a", false)), one(status(1, 5*time.Second, 5100*ms, "a", true))),
			"well at 1s ill at 2s well at 5.1s ", "from 1s ",
		},
		"two faults at once": {
			join(begun(), fault(1, 2*time.Second, 4*time.Second, "partition", 1), fault(2, 3*time.Second, 6*time.Second, "stop", 1),
				one(status(1, 5*time.Second, 5*time.Second, "a", true)), one(status(1, 7*time.Second, 7*time.Second, "a", true))),
			"well at 1s ill at 2s well at 7s ", "from 1s ",
		},
		"a dead process, and a new one": {
			join(begun(), one(kind(1, 2*time.Second, story.KindExit, "")), one(kind(1, 3*time.Second, story.KindStart, "")),
				one(status(1, 4*time.Second, 4*time.Second, "a", true))),
			"well at 1s ill at 2s well at 4s ", "from 1s ",
		},
		"it stops being served, from when it asked": {
			join(begun(), one(status(1, 2*time.Second, 2500*ms, "a", false)), one(status(1, 3*time.Second, 3100*ms, "a", true))),
			"well at 1s ill at 2s well at 3.1s ", "from 1s ",
		},
		"no processor": {
			join(begun(), one(kindSpan(1, 2*time.Second, 3*time.Second, story.KindStall)), one(status(1, 4*time.Second, 4*time.Second, "a", true))),
			"well at 1s ill at 2s well at 4s ", "from 1s ",
		},
		"no disk for anybody": {
			join(begun(), one(kindSpan(-1, 2*time.Second, 3*time.Second, story.KindStall)),
				one(status(1, 4*time.Second, 4*time.Second, "a", true)), one(status(2, 5*time.Second, 5*time.Second, "a", true))),
			"well at 1s ill at 2s well at 4s ", "from 1s to 2s from 5s ",
		},
		"two of three are a majority, one is none": {
			join(begun(), fault(1, 2*time.Second, 9*time.Second, "stop", 0), fault(2, 3*time.Second, 9*time.Second, "stop", 2)),
			"well at 1s ", "from 1s to 3s ",
		},
		"a majority under a raft leader in a storm is none": {
			join(begun(), fault(1, 2*time.Second, 3*time.Second, story.Storm, 0)),
			"well at 1s ", "from 1s to 2s from 3s ",
		},
		"a majority under a raft leader that loses what is large is none": {
			join(begun(), fault(1, 2*time.Second, 3*time.Second, story.Large, 0)),
			"well at 1s ", "from 1s to 2s from 3s ",
		},
		"a cut about the raft leader is no excuse": {
			join(begun(), fault(1, 2*time.Second, 3*time.Second, "partition", 0)),
			"well at 1s ", "from 1s ",
		},
	} {
		well, majority := health(c.lines, 1)
		if well != c.well || c.majority != "" && majority != c.majority {
			t.Errorf("%s: node 1 %s, majority %s; want %s, %s", name, well, majority, c.well, c.majority)
		}
	}
}

// A client may hang on the replica that something is done to. What is done to a client is its own.
func TestAClientIsAsIllAsTheReplicas(t *testing.T) {
	t.Parallel()
	lines := join(begun(), fault(1, 2*time.Second, 4*time.Second, "kill", 0), fault(2, 3*time.Second, 6*time.Second, "stop", 1),
		one(status(2, 5*time.Second, 5*time.Second, "a", true)), one(status(2, 7*time.Second, 7*time.Second, "a", true)),
		one(kindSpan(1, 8*time.Second, 9*time.Second, story.KindStall)), one(status(2, 10*time.Second, 10*time.Second, "a", true)),
		fault(3, 11*time.Second, 12*time.Second, "kill client", 2), one(status(1, 13*time.Second, 13*time.Second, "a", true)))
	for i := range lines {
		if r := lines[i].Run; r != nil {
			of := *r
			of.Clients, lines[i].Run = 1, &of
		}
	}
	for node, want := range map[int]string{
		2: "well at 1s ill at 2s well at 7s ill at 8s well at 10s ill at 11s ",
		1: "well at 1s ill at 3s well at 13s ",
	} {
		if well, _ := health(lines, node); well != want {
			t.Errorf("node %d: %s, want %s", node, well, want)
		}
	}
}

// A node beyond the bound is a client until it has a replica, as it says of itself.
func TestANodeIsAsIllAsTheOthersWhileItHasNoReplica(t *testing.T) {
	t.Parallel()
	far := func(l story.Line) story.Line { l.Status.Far = true; return l }
	lines := join(begun(), fault(1, 2*time.Second, 3*time.Second, "kill", 0), // it has a replica
		one(far(status(2, 4*time.Second, 4*time.Second, "a", true))), fault(2, 5*time.Second, 6*time.Second, "kill", 0),
		one(far(status(2, 7*time.Second, 7*time.Second, "a", true))), fault(3, 8*time.Second, 10*time.Second, "kill", 0),
		one(status(2, 9*time.Second, 9*time.Second, "a", true))) // it was given a replica
	const want = "well at 1s ill at 5s well at 7s ill at 8s well at 9s "
	if well, _ := health(lines, 2); well != want {
		t.Errorf("%s, want %s", well, want)
	}
}

func TestAFitMajorityHasToServe(t *testing.T) {
	t.Parallel()
	silent := func(until time.Duration, faults ...story.Line) []story.Line {
		lines := join(begun(), faults)
		for i := range 3 {
			lines = append(lines, status(i, 2*time.Second, 2500*ms, "", false), status(i, until, until, "b", true))
		}
		return lines
	}
	for name, c := range map[string]struct {
		lines []story.Line
		wrong int
		most  time.Duration
	}{
		"in time":    {silent(2*time.Second + story.ServeMax), 0, story.ServeMax},
		"too late":   {silent(3*time.Second + story.ServeMax), 3, story.ServeMax + time.Second},
		"a minority": {silent(time.Minute, join(fault(1, 1500*ms, time.Minute, "stop", 0), fault(2, 1500*ms, time.Minute, "stop", 1))...), 0, 0},
		"a majority": {silent(time.Minute, fault(1, 1500*ms, time.Minute, "stop", 0)...), 2, 58 * time.Second},
	} {
		v, err := story.Judge(c.lines, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for _, rule := range rulesOf(v) {
			if rule == "a fit majority serves" {
				wrong++
			}
		}
		if wrong != c.wrong || v.Figures.Unserved != c.most {
			t.Errorf("%s: %d violations, at most %v; want %d, %v", name, wrong, v.Figures.Unserved, c.wrong, c.most)
		}
	}
}
