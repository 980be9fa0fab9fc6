package node

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// sickDisk is a file system in memory. Where it is sick, no file or directory can be made whose path has a
// part; the call fails, or hangs.
type sickDisk struct {
	vfs.FS
	mu    sync.Mutex
	part  string        // "": it is well
	hangs chan struct{} // not nil: until it is closed
}

func (d *sickDisk) Create(name string) (vfs.File, error) {
	if err := d.ails(name); err != nil {
		return nil, err
	}
	return d.FS.Create(name)
}

func (d *sickDisk) MkdirAll(name string, perm os.FileMode) error {
	if err := d.ails(name); err != nil {
		return err
	}
	return d.FS.MkdirAll(name, perm)
}

func (d *sickDisk) ails(name string) error {
	d.mu.Lock()
	sick, hangs := d.part != "" && strings.Contains(name, d.part), d.hangs
	d.mu.Unlock()
	switch {
	case sick && hangs != nil:
		<-hangs
	case sick:
		return syscall.ENOSPC
	}
	return nil
}

// sicken has files with a part in their path not be made; heal ends that.
func (d *sickDisk) sicken(part string, hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.part = part; hangs {
		d.hangs = make(chan struct{})
	}
}

func (d *sickDisk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.part = ""; d.hangs != nil {
		close(d.hangs)
		d.hangs = nil
	}
}

// onSickDisk is a fleet of four replicas and a client on a disk of its own.
func onSickDisk(t *testing.T) (nodes []*Node, client *Node, disk *sickDisk) {
	t.Helper()
	disk = &sickDisk{FS: vfs.NewMem()}
	nodes, client = beyond(t, again(t, disk))
	return nodes, client, disk
}

// spare opens one more client of the fleet of client.
func spare(t *testing.T, client *Node) *Node {
	t.Helper()
	cfg := client.cfg
	cfg.Bind, cfg.Name, cfg.Env.Dir = "10.0.0.6:7643", "spare", datadir.Memory()
	n := opened(t, &heard{}, cfg)
	ready(t, n)
	return n
}

// within waits in virtual time until something is so.
func within(t *testing.T, d time.Duration, what string, so func() bool) {
	t.Helper()
	for range d / (100 * time.Millisecond) {
		if so() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no %s within %v", what, d)
}

// standsBy reports whether a node follows as the fleet knows it, and has caught up.
func standsBy(of, n *Node) bool {
	group, _ := n.Proposer.Current()
	return group != nil && of.replica.Load().Members().Has(n.ID())
}

// wantClient fails unless the node is a client that is served, and that the group of another has no replica of.
func wantClient(t *testing.T, of, n *Node) {
	t.Helper()
	if n.Stopped() != nil || !n.asClient.serves() || !n.Status().Serves || of.replica.Load().Members().Has(n.ID()) {
		t.Errorf("the node ended with %v, is served: %v, waits for %q, and the group has %v", n.Stopped(), n.asClient.serves(), n.Missing(),
			of.replica.Load().Members().All())
	}
}

// A client was given a replica while its disk was full, or hung, could not start it, and died with its leases;
// then the raft leader chose the next one. A standby that never started stayed one for as long as gossip saw its
// node.
func TestAClientThatCannotStartItsReplicaGoesOnAndAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"a full disk": false, "a disk that hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, client, disk := onSickDisk(t)
				disk.sicken("/data/", hangs)
				defer disk.heal()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := nodes[3].Leave(ctx); err != nil {
					t.Fatal(err)
				}
				within(t, 20*time.Second, "word of its disk", client.asClient.unfit.Load)
				time.Sleep(5 * time.Second)
				wantClient(t, nodes[0], client)
				healthy := spare(t, client)
				within(t, 20*time.Second, "standby in its place", func() bool { return standsBy(nodes[0], healthy) })
				time.Sleep(3 * time.Minute)
				wantClient(t, nodes[0], client)
				disk.heal()
				time.Sleep(2 * unfitTime)
				if err := healthy.Leave(ctx); err != nil {
					t.Fatal(err)
				}
				within(t, 20*time.Second, "standby on the disk that is well", func() bool { return standsBy(nodes[0], client) })
				if client.asClient.unfit.Load() {
					t.Error("its disk is well, and it says otherwise")
				}
			})
		})
	}
}

// A standby that is removed asks for another replica at once, or is a client: it was alone for a second first.
func TestANodeWhoseReplicaWasRemovedAsksForAnotherAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		nodes := fleetOf(t, network, 4)
		time.Sleep(10 * time.Second)
		var standby, leader *Node
		for _, n := range nodes {
			if group := n.replica.Load(); !group.Members().Votes(n.ID()) {
				standby = n
			} else if group.IsRaftLeader() {
				leader = n
			}
		}
		network.SetFaults(standby.Addr(), "*", transport.Faults{Drop: 1}) // gossip alone would take its time
		former := standby.founder.replica()
		standby.founder.replicaRemoved(former, false)
		within(t, 5*time.Second, "next life", func() bool { return standby.founder.replica() != former })
		began := time.Now()
		next := standby.founder.replica()
		for {
			m, _ := leader.gossip.Member(standby.ID())
			if m.Replica == next {
				break
			}
			if time.Since(began) > 10*time.Second {
				t.Fatal("the raft leader has not heard of it")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > announcePause/2 {
			t.Errorf("the raft leader heard of it after %v", took)
		}
	})
}

const childVar = "HOLDFAST_NODE_CHILD"

// inChild runs a test in a process of its own, as an engine that has failed leaves parked goroutines behind, which
// would hold up the end of its bubble: the child ends with f.
func inChild(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childVar) != t.Name() {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), childVar+"="+t.Name())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in a process of its own: %v\n%s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		f(t)
		code := 0
		if t.Failed() {
			code = 1
		}
		os.Exit(code)
	})
}

// The engine of a client's replica fails on its way, as disks fill: the node died of it.
func TestAClientOutlivesTheEngineOfItsReplica(t *testing.T) {
	inChild(t, func(t *testing.T) {
		nodes, client, disk := onSickDisk(t)
		disk.sicken(".log", false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := nodes[3].Leave(ctx); err != nil {
			t.Error(err)
		}
		within(t, 20*time.Second, "word of its disk", client.asClient.unfit.Load)
		healthy := spare(t, client)
		within(t, 20*time.Second, "standby in its place", func() bool { return standsBy(nodes[0], healthy) })
		disk.heal()
		time.Sleep(3 * time.Minute)
		wantClient(t, nodes[0], client)
		if !client.asClient.unfit.Load() {
			t.Error("it would take another replica, whose directory the first engine may still write to")
		}
		wantClosed(t, client)
		cfg := client.cfg
		cfg.Env.Dir = again(t, disk)
		next := opened(t, &heard{}, cfg) // by a restart the directory is as good as any
		ready(t, next)
		if err := healthy.Leave(ctx); err != nil {
			t.Error(err)
		}
		within(t, 20*time.Second, "standby on its directory", func() bool { return standsBy(nodes[0], next) })
	})
}

// wantClosed closes a node within the time that docs/operations.md gives for it, gossip quiet at once.
func wantClosed(t *testing.T, n *Node) {
	t.Helper()
	began := time.Now()
	n.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// Close waited for the start of the engine, for up to a minute on a disk that hangs.
func TestCloseDoesNotWaitForAnEngineThatStartsOnADiskThatHangs(t *testing.T) {
	inChild(t, func(t *testing.T) { closesWhereMaking(t, ".log") })
}

// The same before the engine starts: Close waited for as long as the disk hung.
func TestCloseDoesNotWaitForTheDirectoryOfAnEngine(t *testing.T) {
	inChild(t, func(t *testing.T) { closesWhereMaking(t, "/raft") })
}

// closesWhereMaking closes a node that starts its replica on a disk where the making of such a file or directory
// hangs.
func closesWhereMaking(t *testing.T, part string) {
	t.Helper()
	network, disk := transport.NewMemory(1), &sickDisk{FS: vfs.NewMem()}
	fleetOf(t, network, 3)
	dir := again(t, disk)
	disk.sicken(part, true)
	n := opened(t, &heard{}, Config{
		Bind: "10.0.0.7:7643", Name: "hangs", Replicas: 4, Join: []string{"10.0.0.1:7643"}, Env: simenv.Env{Network: network, Dir: dir},
	})
	within(t, time.Minute, "start of the engine", func() bool { return n.founder.disk.began.Load() != nil && n.dir.Identity().ClusterID != "" })
	time.Sleep(3 * time.Second)
	wantClosed(t, n)
	if !n.founder.abandoned.Load() {
		t.Error("the directory may be opened again beside an engine that hangs")
	}
}

// The same of a client that tries its disk before it starts the replica that it was given.
func TestCloseDoesNotWaitForAClientThatTriesADiskThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, client, disk := onSickDisk(t)
		disk.sicken("/data/", true)
		defer disk.heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := nodes[3].Leave(ctx); err != nil {
			t.Fatal(err)
		}
		within(t, 20*time.Second, "attempt", func() bool { return client.founder.disk.began.Load() != nil })
		wantClosed(t, client)
	})
}
