package contract_test

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

// back opens a fleet of three on disks, closes one, and opens that again with a change.
func back(t *testing.T, all, change func(*holdfast.Config)) (nodes []*holdfast.Cluster, told *testlog.Lines) {
	t.Helper()
	b, dir := testkit.NewPeersFile(t), t.TempDir()
	told = &testlog.Lines{}
	open := func(i int, change func(*holdfast.Config)) *holdfast.Cluster {
		return b.Open(i, func(i int, cfg *holdfast.Config) {
			cfg.DataDir, cfg.Bootstrap, cfg.ReplaceAfter = filepath.Join(dir, strconv.Itoa(i)), 3, time.Hour
			cfg.Logger = told.Logger(slog.LevelInfo)
			all(cfg)
			change(cfg)
		})
	}
	for i := range 3 {
		nodes = append(nodes, open(i, func(*holdfast.Config) {}))
	}
	allReady(t, nodes)
	addr := nodes[2].Addr()
	polled(t, "have the addresses on disk", func() bool {
		list, err := filepath.Glob(filepath.Join(dir, "2", "peers.json"))
		return err == nil && len(list) == 1
	})
	nodes[2].Close()
	told.Forget() // a machine that stood still while the fleet formed
	nodes[2] = open(2, func(cfg *holdfast.Config) {
		cfg.Bind = addr
		change(cfg)
	})
	return nodes, told
}

// says wants a node to say of each other voter what it met there, in its Status and in its log, and
// nothing of the group as a whole: that serves.
func says(t *testing.T, nodes []*holdfast.Cluster, told *testlog.Lines, c *holdfast.Cluster, why string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%+v, %+v", c.Status().Voters, told.Of("level=ERROR"))
		}
	}()
	polled(t, "say what keeps it from the others", func() bool {
		named := 0
		for _, v := range c.Status().Voters {
			if v.ID != c.ID() && v.Addr != "" && strings.Contains(v.Ill, why) {
				named++
			}
		}
		return named > 0
	})
	var list []string
	polled(t, "log what keeps it from the others", func() bool { // Status has it a moment earlier
		list = told.Of("level=ERROR", "node="+c.ID(), "this node hears no raft leader")
		return len(list) > 0
	})
	if len(list) != 1 || !strings.Contains(list[0], why) {
		t.Errorf("it logged %q, want one line with %q", list, why)
	}
	for _, other := range nodes {
		if other == c {
			continue
		}
		serves(t, within(t, 30*time.Second), other)
		if list := told.Of("level=ERROR", "node="+other.ID(), "raft leader"); len(list) > 0 {
			t.Errorf("a node that serves says %q", list)
		}
	}
}

func TestANodeWithAnotherSecretNamesWhatKeepsItFromTheOthers(t *testing.T) {
	t.Parallel()
	secret := func(s string) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.Secrets = []string{s + " that is long enough to be random"} }
	}
	nodes, told := back(t, secret("a secret"), secret("another secret"))
	says(t, nodes, told, nodes[2], "peer does not know the cluster's secret")
}

func TestANodeWithAnExpiredCertificateNamesWhatKeepsItFromTheOthers(t *testing.T) {
	t.Parallel()
	valid, expired := testkit.Authorities(t)
	with := func(own *tls.Config) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.TLS = own }
	}
	nodes, told := back(t, with(valid), with(expired))
	says(t, nodes, told, nodes[2], "certificate")
	polled(t, "say why they do not hear it", func() bool { // one of them is the raft leader
		for _, c := range nodes[:2] {
			for _, v := range c.Status().Voters {
				if v.ID == nodes[2].ID() && strings.Contains(v.Ill, "certificate") {
					return true
				}
			}
		}
		return false
	})
}

// The fleet serves, and this node does not hear so. Gossip sees all of them alive.
func TestAFollowerWhoseLinkToTheRaftLeaderIsCutSpeaksOfItselfAlone(t *testing.T) {
	t.Parallel()
	told := &testlog.Lines{}
	sim.Run(t, sim.Options{Nodes: 3, Logger: told.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		time.Sleep(5 * time.Second)
		leader := s.RaftLeader()
		cut := others(s, leader)[0]
		s.Cut(cut.Index(), leader.Index())
		s.Cut(leader.Index(), cut.Index())
		time.Sleep(30 * time.Second)
		if now := s.RaftLeader(); now != leader {
			t.Fatalf("node %d leads now: the link that was cut matters no more", now.Index())
		}
		if st := cut.Cluster().Status(); st.RaftLeader != "" {
			t.Errorf("raft leader %q", st.RaftLeader)
		} else {
			for _, v := range st.Voters {
				if v.ID == leader.Cluster().ID() && !strings.Contains(v.Ill, "timeout") {
					t.Errorf("it says of the raft leader: %q", v.Ill)
				}
			}
		}
		list := told.Of("level=ERROR", "node="+cut.Cluster().ID())
		if len(list) != 1 || !strings.Contains(list[0], "this node hears no raft leader") || !strings.Contains(list[0], leader.Cluster().Addr()) {
			t.Errorf("it logged %q", list)
		}
	})
}

func TestTheRaftLeaderNamesANewcomerAtAnAddressWhereNobodyIs(t *testing.T) {
	t.Parallel()
	b, told := testkit.NewPeersFile(t), &testlog.Lines{}
	logged := func(_ int, cfg *holdfast.Config) {
		cfg.Bootstrap, cfg.Logger = 1, told.Logger(slog.LevelInfo)
	}
	first := b.Open(0, logged)
	allReady(t, []*holdfast.Cluster{first})
	newcomer := b.Open(1, logged, func(_ int, cfg *holdfast.Config) { cfg.Advertise = "127.0.0.77:0" })
	polled(t, "name it in the log", func() bool {
		return len(told.Of("level=WARN", "node="+first.ID(), "is not reached at the address that it advertises", newcomer.Addr())) == 1
	})
}
