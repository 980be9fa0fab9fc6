package node

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/transport"
)

// lines is what a logger has written above Debug.
type lines struct{ testlog.Lines }

func (l *lines) logger() *slog.Logger { return l.Logger(slog.LevelInfo) }

// alone is the line of a node that is a fleet of its own.
const alone = `level=INFO msg="this node has no Config.Join: it is a fleet of its own, until others join it"`

// wantQuiet fails for a line that speaks of trouble: any but that one and those of changes that were
// made.
func (l *lines) wantQuiet(t *testing.T) {
	t.Helper()
	for _, line := range l.Of() {
		if !strings.Contains(line, `level=INFO msg="changed the membership"`) && !strings.Contains(line, alone) {
			t.Errorf("a healthy start says: %s", line)
		}
	}
}

// An operator who reads of trouble at every start overlooks the one that is real.
func TestASingleNodeLogsOnceThatItIsAloneAndNoTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		n := opened(t, &heard{}, Config{Logger: log.logger()})
		ready(t, n)
		time.Sleep(autopilot.LevelPauseDefault - time.Minute) // then the level rises, which is said
		log.wantQuiet(t)
		n.Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
		log.wantQuiet(t)
		if said := strings.Count(log.String(), alone); said != 1 {
			t.Errorf("it says %d times that it is alone", said)
		}
	})
}

// The test above closed its node an hour after its start, as the level was to rise: one run of three
// warned that this failed.
func TestANodeThatClosesAsTheLevelIsToRiseLogsNoTrouble(t *testing.T) {
	t.Parallel()
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			log := &lines{}
			n := opened(t, &heard{}, Config{Logger: log.logger(), Env: simenv.Env{LevelPause: time.Minute}})
			ready(t, n)
			time.Sleep(time.Minute)
			n.Close()
			time.Sleep(time.Minute) // memberlist's goroutines end
			if said := log.String(); strings.Contains(said, "level=WARN") {
				t.Errorf("a node that closes says: %s", said)
			}
		})
	}
}

// A raft leader adds a node just as it loses the other voters: the change is under way until the node closes.
func TestANodeThatClosesAsItChangesTheMembershipLogsNoTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, log := transport.NewMemory(1), &lines{}
		start := func(host string) *Node {
			return opened(t, &heard{}, Config{Bind: host + ":7643", Join: []string{"10.0.0.1:7643", "10.0.0.2:7643"}, Bootstrap: 3,
				Logger: log.logger(), Env: simenv.Env{Network: network, Dir: datadir.Memory()}})
		}
		nodes := []*Node{start("10.0.0.1"), start("10.0.0.2"), start("10.0.0.3")}
		ready(t, nodes...)
		time.Sleep(10 * time.Second) // all of them vote
		start("10.0.0.4")
		i := slices.IndexFunc(nodes, func(n *Node) bool { return n.replica.Load().IsRaftLeader() })
		network.SetFaults(nodes[i].Addr(), "*", transport.Faults{CutRaft: true})
		time.Sleep(100 * time.Millisecond)
		nodes[i].Close()
		if said := log.String(); strings.Contains(said, "changing the membership failed") {
			t.Errorf("a node that closes says: %s", said)
		}
	})
}

func TestAFleetThatFormsLogsNoTroubleAndNamesItsNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		nodes := fleet(t, []*heard{{}, {}, {}}, transport.NewMemory(1), log.logger())
		ready(t, nodes...)
		time.Sleep(10 * time.Minute)
		log.wantQuiet(t)
		if strings.Contains(log.String(), alone) {
			t.Error("a node that others joined says that it is alone")
		}
		if all := log.String(); !strings.Contains(all, " name=fleet-") || !strings.Contains(all, " address=10.0.0.") {
			t.Errorf("the lines do not name their node: %s", all)
		}
		for _, n := range nodes {
			n.Close()
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// Before, the kind of a change was a number in a log of JSON, which does not ask a value for its text.
func TestTheChangesOfTheMembershipAreWordsInALogOfJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		nodes := fleet(t, []*heard{{}, {}, {}}, transport.NewMemory(1), slog.New(slog.NewJSONHandler(log, nil)))
		ready(t, nodes...)
		time.Sleep(10 * time.Second) // all of them vote
		for _, kind := range []autopilot.Kind{autopilot.AddStandby, autopilot.Promote} {
			if text := `"msg":"changed the membership"`; !strings.Contains(log.String(), text) || !strings.Contains(log.String(), `"change":"`+kind.String()+`"`) {
				t.Errorf("no %q in %s", kind, log.String())
			}
		}
		for _, n := range nodes {
			n.Close()
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}
