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

// One of three hosts is back after a blackout. An operator who is to find the others knows their names and
// addresses, and no ids; gossip has never seen them in this process.
func TestAfterAColdStartTheMissingVotersAreNamedWithTheirLastAddresses(t *testing.T) {
	t.Parallel()
	told := &testlog.Lines{}
	config := func(i int, cfg *holdfast.Config) { cfg.Name = fmt.Sprint("host-", i) }
	sim.Run(t, sim.Options{Nodes: 3, Config: config, Logger: told.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		time.Sleep(2 * time.Minute) // each has written down where the others are
		var missing []string
		for _, n := range s.Nodes() {
			missing = append(missing, fmt.Sprintf(`%s (\"host-%d\", last at %s)`, n.Cluster().ID(), n.Index(), n.Cluster().Addr()))
			n.Kill()
		}
		time.Sleep(time.Minute)
		told.Forget()
		first := s.Node(0)
		first.Open()
		time.Sleep(30 * time.Second)
		list := told.Of("level=ERROR", "this node hears no raft leader")
		if len(list) != 1 {
			t.Fatalf("it said %q", list)
		}
		for _, voter := range missing[1:] {
			if !strings.Contains(list[0], voter+": not heard since this process began") {
				t.Errorf("it said %q, which has no %q", list[0], voter)
			}
		}
		if strings.Contains(list[0], first.Cluster().ID()+" (") || strings.Contains(list[0], "never seen") {
			t.Errorf("it said %q", list[0])
		}
		for i, v := range first.Cluster().Status().Voters {
			if v.Name == "" || v.Addr == "" || v.ID != first.Cluster().ID() && v.Ill == "" {
				t.Errorf("voter %d of its Status is %+v", i, v)
			}
		}
	})
}
