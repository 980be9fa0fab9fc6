package contract_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// clientOf opens a client of a fleet.
func clientOf(t testing.TB, join []string, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	cfg := holdfast.Config{Cluster: testkit.Cluster(t), Name: "client", ClientOnly: true, Join: join, Logger: quiet()}
	for _, f := range change {
		f(&cfg)
	}
	c, err := holdfast.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAClientLocksWithTheNodesOfItsFleetUnderTheirSecrets(t *testing.T) {
	t.Parallel()
	secrets := []string{"0123456789abcdef"}
	list := fleet(t, 3, func(_ int, cfg *holdfast.Config) { cfg.Secrets = secrets })
	_, port, err := net.SplitHostPort(list[1].Addr())
	if err != nil {
		t.Fatal(err)
	}
	of := func(cfg *holdfast.Config) { cfg.Secrets = secrets }
	a := clientOf(t, []string{"dns+localhost:" + port}, of)
	b := clientOf(t, []string{"127.0.0.1:1", list[2].Addr()}, of)
	allReady(t, []*holdfast.Cluster{a, b})
	for _, c := range []*holdfast.Cluster{a, b} {
		serves(t, within(t, 20*time.Second), c)
	}
	if st := a.Status(); st.Role != holdfast.RoleClient || st.ClusterID != list[0].Status().ClusterID || a.Addr() != "" {
		t.Errorf("%+v at %q", st, a.Addr())
	}
	// On a busy machine a replica may be silent for as long as makes its client look for another.
	testkit.Polled(t, "a client to say that it is ready", func() bool { return a.Status().Ready })
	held := get(t, a, "x")
	next := make(chan *holdfast.Lease)
	for _, c := range []*holdfast.Cluster{list[0], b} {
		go func() {
			l, err := c.Acquire(within(t, 20*time.Second), "x")
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
	}
	<-held.Wanted()
	a.Close() // gives back at once: the TTL is 15 s
	for range 2 {
		l := <-next
		if l == nil || l.Token() <= held.Token() {
			t.Fatalf("%v after %v", l, held)
		}
		release(t, l)
	}
}

// A tool of an operator is a client: what it shows of the fleet is what its replica knows.
func TestAnOperatorAtAClientSeesTheFleetRemovesADeadNodeAndTakesABackup(t *testing.T) {
	t.Parallel()
	list := fleet(t, 3, func(_ int, cfg *holdfast.Config) { cfg.ReplaceAfter, cfg.DataDir = time.Hour, t.TempDir() })
	allReady(t, list)
	c := clientOf(t, []string{list[0].Addr()})
	if err := c.Ready(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	var st, of holdfast.Status
	polled(t, "agreement of the client and its replica", func() bool { // one of them may know of an election first
		st, of = c.Status(), list[0].Status()
		return st.RaftLeader == of.RaftLeader && st.Term == of.Term && st.Level == of.Level
	})
	if len(st.Voters) != 3 || st.RaftLeader != of.RaftLeader || st.Term != of.Term || st.Applied == 0 || st.Level != of.Level || st.Role != holdfast.RoleClient {
		t.Errorf("a client that is ready shows %+v, its replica %+v", st, of)
	}
	voters, own := 0, 0
	for _, m := range c.Members() {
		if m.Role == holdfast.RoleVoter && m.Addr != "" && m.State == holdfast.StateAlive && !m.Local {
			voters++
		}
		if m.Local && m.ID == c.ID() && m.Role == holdfast.RoleClient {
			own++
		}
	}
	if voters != 3 || own != 1 || len(c.Members()) != 4 {
		t.Errorf("its members are %+v", c.Members())
	}

	get(t, list[1], "kept", holdfast.WithValue([]byte("v")))
	var whole bytes.Buffer
	if err := c.Backup(within(t, 20*time.Second), &whole); err != nil {
		t.Fatal(err)
	}
	if info, err := holdfast.CheckBackup(&whole); err != nil || info.ClusterID != st.ClusterID || info.Names != 1 || info.Unconfirmed {
		t.Errorf("the backup of a client is %+v: %v", info, err)
	}

	transfers(t, c, list)

	var kept *holdfast.RemoveError
	if err := c.RemoveNode(within(t, 20*time.Second), list[1].ID(), "why not"); !errors.As(err, &kept) || kept.Last || kept.NodeID != list[1].ID() {
		t.Errorf("removing a node that lives: %v", err)
	}
	if err := c.RemoveNode(within(t, 20*time.Second), uuid.NewString(), "why not"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("removing a node that there never was: %v", err)
	}
	dead := list[2].ID()
	list[2].Close()
	polled(t, "the removal of a dead node", func() bool { // Raft has heard it a moment ago
		return c.RemoveNode(within(t, 20*time.Second), dead, "its machine burnt") == nil
	})
	polled(t, "the client to see two voters", func() bool { return len(c.Status().Voters) == 2 })
}

func TestAClientWithAnotherSecretIsServedByNobodyAndSaysSo(t *testing.T) {
	t.Parallel()
	list := fleet(t, 1, func(_ int, cfg *holdfast.Config) { cfg.Secrets = []string{"0123456789abcdef"} })
	c := clientOf(t, []string{list[0].Addr()}, func(cfg *holdfast.Config) { cfg.Secrets = []string{"another one 0123"} })
	polled(t, "the client to say why", func() bool { return strings.Contains(c.Status().Waits, "secret") })
	err := c.Ready(within(t, 100*time.Millisecond))
	if !errors.Is(err, holdfast.ErrNoQuorum) || !strings.Contains(err.Error(), list[0].Addr()) || c.Status().Ready {
		t.Errorf("%v, %+v", err, c.Status())
	}
	if _, err := c.Acquire(within(t, 100*time.Millisecond), "x"); !errors.Is(err, holdfast.ErrNoQuorum) {
		t.Error(err)
	}
}

func TestAClientWithCertificatesIsServedThroughAFile(t *testing.T) {
	t.Parallel()
	own := authority(t)
	peers := testkit.NewPeersFile(t)
	c := clientOf(t, peers.Join(), func(cfg *holdfast.Config) { cfg.TLS = own }) // before there is a fleet
	n := peers.Open(0, func(_ int, cfg *holdfast.Config) { cfg.TLS, cfg.Bootstrap = own, 1 })
	allReady(t, []*holdfast.Cluster{n, c})
	serves(t, within(t, 20*time.Second), c)
}

func TestTheConfigOfAClientNamesWhatItCannotHave(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*holdfast.Config){
		"Config.Join":        func(cfg *holdfast.Config) { cfg.Join = nil },
		"Config.DataDir":     func(cfg *holdfast.Config) { cfg.DataDir = t.TempDir() },
		"Config.Restore":     func(cfg *holdfast.Config) { cfg.Restore, cfg.Bootstrap = strings.NewReader(""), 1 },
		"Config.BackupEvery": func(cfg *holdfast.Config) { cfg.BackupEvery = -1 },
	} {
		cfg := holdfast.Config{ClientOnly: true, Join: []string{"127.0.0.1:1"}}
		change(&cfg)
		if c, err := holdfast.Open(t.Context(), cfg); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, %v", field, c, err)
		}
	}
}
