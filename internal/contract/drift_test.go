package contract_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

// With one node for five voters among those for three, the number of voters depends on which node is raft
// leader. The fleet says so, once, and not while a roll may make nodes differ.
func TestAFleetWithANodeThatIsConfiguredOtherwiseSaysSoOnce(t *testing.T) {
	t.Parallel()
	told := &testlog.Lines{}
	config := func(i int, cfg *holdfast.Config) {
		cfg.Name = fmt.Sprint("node-", i)
		if i == 3 {
			cfg.Voters = 5
		}
	}
	const line = "nodes are configured otherwise than the raft leader"
	sim.Run(t, sim.Options{Nodes: 4, Late: true, Config: config, Logger: told.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		for i := range 3 {
			s.Node(i).Open()
		}
		for i := range 3 {
			s.Node(i).Ready()
		}
		odd := s.Node(3) // it does not vote, and so does not lead
		odd.Open()       // it waits for five voters, and is not ready
		settles(t, 10*time.Second, "a standby", func() bool { return len(s.RaftLeader().Cluster().Status().Standbys) == 1 })
		time.Sleep(50 * time.Second)
		if list := told.Of(line); len(list) > 0 {
			t.Errorf("it may be a roll, and there is %q", list)
		}
		time.Sleep(20 * time.Second)
		list := told.Of(line)
		want := fmt.Sprintf("node-3 (%s): Voters 5, not 3", odd.Cluster().ID())
		if len(list) != 1 || !strings.Contains(list[0], "level=WARN") || !strings.Contains(list[0], want) ||
			!strings.Contains(list[0], "node="+s.RaftLeader().Cluster().ID()) {
			t.Errorf("after 70 s there is %q, want one line of the raft leader's with %q", list, want)
		}
		if drift := s.RaftLeader().Cluster().Status().Drift; !strings.Contains(drift, want) {
			t.Errorf("Status.Drift is %q, without %q", drift, want)
		}
		time.Sleep(5 * time.Minute)
		if list := told.Of(line); len(list) != 1 {
			t.Errorf("later there is %q", list)
		}
	})
}
