package contract_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// trio fails the test unless the nodes are the three voters of one group and all serve.
func trio(t testing.TB, list ...*holdfast.Cluster) {
	t.Helper()
	allReady(t, list)
	want := list[0].Status().ClusterID
	for i, c := range list {
		polled(t, "three voters", func() bool { return len(c.Status().Voters) == 3 })
		if st := c.Status(); st.ClusterID != want || want == "" {
			t.Errorf("node %d belongs to group %q, the first to %q", i, st.ClusterID, want)
		}
		serves(t, within(t, 20*time.Second), c)
	}
}

// join opens a node that joins through entries.
func join(t testing.TB, entries []string, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	cfg := holdfast.Config{Join: entries, Logger: quiet()}
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

// nobody is an address where no node is.
const nobody = "127.0.0.1:1"

func TestNodesJoinByAddress(t *testing.T) {
	t.Parallel()
	a := join(t, []string{nobody})
	b := join(t, []string{a.Addr(), nobody})
	trio(t, a, b, join(t, []string{nobody, b.Addr()}))
}

func TestNodesJoinByName(t *testing.T) {
	t.Parallel()
	a := join(t, []string{nobody})
	_, port, _ := net.SplitHostPort(a.Addr())
	trio(t, a, join(t, []string{"dns+localhost:" + port}), join(t, []string{"localhost:" + port}))
}

func TestNodesJoinByAFileThatIsWrittenLater(t *testing.T) {
	t.Parallel()
	b := testkit.NewPeersFile(t)
	var list []*holdfast.Cluster
	for range 3 {
		list = append(list, join(t, b.Join()))
	}
	text := fmt.Sprintf("# the fleet\n\n%s # first\nnonsense:port\nfile+/etc/passwd\n%s\n", list[0].Addr(), list[1].Addr())
	if err := os.WriteFile(b.Path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	trio(t, list...)
}

func TestNodesJoinByServiceRecord(t *testing.T) {
	t.Parallel()
	n := newNames(t)
	ctx := simenv.With(t.Context(), simenv.Env{Names: n.resolver()})
	var list []*holdfast.Cluster
	for range 3 {
		c, err := holdfast.Open(ctx, holdfast.Config{Join: []string{"dnssrv+" + srvName}, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		n.add(t, c.Addr())
		list = append(list, c)
	}
	trio(t, list...)
}

func TestOfFiveNodesThatStartAtOnceThreeVoteAndAllServe(t *testing.T) {
	t.Parallel()
	b := testkit.NewPeersFile(t)
	list := make([]*holdfast.Cluster, 5)
	var all sync.WaitGroup
	began := time.Now()
	for i := range list { // in the order that the scheduler likes
		all.Go(func() { list[i] = b.Open(i) })
	}
	all.Wait()
	allReady(t, list)
	took := time.Since(began)
	if took > 20*time.Second { // seconds on a machine that does nothing else
		t.Errorf("forming took %v", took)
	}
	voters := 0
	for i, c := range list {
		polled(t, "three voters and two standbys", func() bool {
			st := c.Status()
			return len(st.Voters) == 3 && len(st.Standbys) == 2 && st.Ready
		})
		st := c.Status()
		if st.ClusterID != list[0].Status().ClusterID {
			t.Errorf("node %d belongs to another group", i)
		}
		switch st.Role {
		case holdfast.RoleVoter:
			voters++
		case holdfast.RoleStandby:
		default:
			t.Errorf("node %d is a %v", i, st.Role)
		}
		serves(t, within(t, 20*time.Second), c)
	}
	if voters != 3 {
		t.Errorf("%d nodes say that they vote", voters)
	}
	// A call that waits on one node is served by the release on another, standbys included.
	held := acquire(t, list[0], "shared")
	for i, c := range list {
		next := make(chan *holdfast.Lease, 1)
		go func() { next <- acquire(t, c, "shared") }()
		eventually(t, c, "a waiter", func() bool { return c.Status().Waiting == 1 })
		select {
		case <-held.Wanted():
		case <-time.After(30 * time.Second):
			t.Fatal("the holder is not told that it is wanted")
		}
		release(t, held)
		if got := <-next; got.Token() <= held.Token() {
			t.Errorf("node %d: token %d after %d", i, got.Token(), held.Token())
		} else {
			held = got
		}
	}
	release(t, held)
}

func TestNodesOfOneSecretFindEachOther(t *testing.T) {
	t.Parallel()
	secret := func(s ...string) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.Secrets = s }
	}
	a := join(t, []string{nobody}, secret("the secret of this fleet"))
	b := join(t, []string{a.Addr()}, secret("the secret of this fleet", "its next secret"))
	c := join(t, []string{a.Addr()}, secret("the secret of this fleet"))
	for _, stranger := range []*holdfast.Cluster{
		join(t, []string{a.Addr(), b.Addr()}, secret("another secret")),
		join(t, []string{a.Addr(), b.Addr()}),
	} {
		trio(t, a, b, c)
		strange(t, stranger, a, b, c)
	}
}

// strange fails the test unless c and the fleet know nothing of each other.
func strange(t testing.TB, c *holdfast.Cluster, fleet ...*holdfast.Cluster) {
	t.Helper()
	if err := c.Ready(within(t, time.Second)); !errors.Is(err, holdfast.ErrNoQuorum) {
		t.Errorf("a stranger is ready: %v", err)
	}
	if m := c.Members(); len(m) != 1 || c.Status().ClusterID != "" {
		t.Errorf("a stranger sees %d members and group %q", len(m), c.Status().ClusterID)
	}
	for _, f := range fleet {
		settles(t, 10*time.Second, "sight of the fleet and nobody else", func() bool { return len(f.Members()) == len(fleet) })
	}
}

func TestNodesWithCertificatesOfOneAuthorityFindEachOther(t *testing.T) {
	t.Parallel()
	ours, theirs := authority(t), authority(t)
	with := func(c *tls.Config) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.TLS = c }
	}
	a := join(t, []string{nobody}, with(ours))
	b, c := join(t, []string{a.Addr()}, with(ours)), join(t, []string{a.Addr()}, with(ours))
	trusting := theirs.Clone() // it would take us, but we do not take it
	trusting.RootCAs = ours.RootCAs
	ours.RootCAs, ours.ClientCAs = nil, ours.RootCAs // each side's alone will do
	for _, stranger := range []*holdfast.Cluster{
		join(t, []string{a.Addr(), b.Addr()}, with(theirs)),
		join(t, []string{a.Addr(), b.Addr()}, with(trusting)),
	} {
		trio(t, a, b, c)
		strange(t, stranger, a, b, c)
	}
}

func TestNodesOfAnotherClusterNameAreNoneOfOurs(t *testing.T) {
	t.Parallel()
	called := func(name string) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.Cluster, cfg.Secrets = name, []string{"one secret for two fleets"} }
	}
	a := join(t, []string{nobody}, called("ours"))
	b, c := join(t, []string{a.Addr()}, called("ours")), join(t, []string{a.Addr()}, called("ours"))
	stranger := join(t, []string{a.Addr(), b.Addr(), c.Addr()}, called("theirs"))
	trio(t, a, b, c)
	strange(t, stranger, a, b, c)
}
