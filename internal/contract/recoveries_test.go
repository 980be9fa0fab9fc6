package contract_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/sim"
)

// outlived is a fleet of three, and a node on which a backup of it is restored beside it.
type outlived struct {
	*sim.Sim
	holder *holdfast.Lease // of "lock", on node 0
	bound  time.Duration   // Config.MaxTTL of what is opened next
	backup bytes.Buffer
}

const longest = time.Minute // of the TTLs

func outlive(t *testing.T, f func(t *testing.T, o *outlived)) {
	t.Helper()
	o := &outlived{bound: longest}
	config := func(i int, cfg *holdfast.Config) {
		cfg.MaxTTL = o.bound
		if i == 3 {
			cfg.Restore, cfg.Bootstrap = bytes.NewReader(o.backup.Bytes()), 1
		}
	}
	sim.Run(t, sim.Options{Nodes: 3, Config: config}, func(s *sim.Sim) {
		o.Sim = s
		o.holder = get(t, s.Node(0).Cluster(), "lock", holdfast.WithValue([]byte("kept")))
		if err := s.Node(1).Cluster().Backup(until(time.Minute), &o.backup); err != nil {
			t.Fatal(err)
		}
		f(t, o)
	})
}

// restored opens the node that begins with the backup, and takes the lock there.
func (o *outlived) restored(t *testing.T) *holdfast.Lease {
	t.Helper()
	n := o.Add()
	began := time.Now()
	n.Open()
	l, err := n.Cluster().Acquire(until(2*longest), "lock")
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < longest || l.Token() <= o.holder.Token() || string(l.Value()) != "kept" {
		t.Errorf("after %v: token %d after %d, value %q", waited, l.Token(), o.holder.Token(), l.Value())
	}
	return l
}

// strangers wants both groups to say that the other one is in sight, and to stay apart.
func strangers(t *testing.T, a, b *holdfast.Cluster) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !foreign(a, b); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%v and %v do not refuse each other", a.Status().Foreign, b.Status().Foreign)
		}
	}
}

// foreign reports whether nodes of two groups both say that the other group is in sight.
func foreign(a, b *holdfast.Cluster) bool {
	return a.Status().ClusterID != b.Status().ClusterID && slices.Contains(a.Status().Foreign, b.Status().ClusterID) &&
		slices.Contains(b.Status().Foreign, a.Status().ClusterID)
}

// What guarantees.md says of an operator who recovers while a majority lives behind a cut: a lock has
// two holders with valid leases, and tokens alone tell them apart.
func TestAMajorityThatLivesOnBesideARecoveryIsStoppedByTokensAlone(t *testing.T) {
	t.Parallel()
	outlive(t, func(t *testing.T, o *outlived) {
		o.Partition([]int{0, 1, 2}, []int{3})
		second := o.restored(t)
		if !o.holder.Valid() || !second.Valid() {
			t.Errorf("valid: %v in the former group, %v in the recovered one", o.holder.Valid(), second.Valid())
		}
		var guard fence.Memory
		if err := guard.Check(until(time.Minute), "lock", second.Token()); err != nil {
			t.Fatal(err)
		}
		if err := o.holder.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		again := get(t, o.Node(1).Cluster(), "lock") // the former group goes on granting
		for _, l := range []*holdfast.Lease{o.holder, again} {
			if err := guard.Check(until(time.Minute), "lock", l.Token()); !errors.Is(err, fence.ErrStale) {
				t.Errorf("token %d of the former group after %d: %v", l.Token(), second.Token(), err)
			}
		}
		o.Heal()
		for _, n := range o.Nodes()[:3] {
			strangers(t, n.Cluster(), o.Node(3).Cluster())
		}
		if !again.Valid() || !second.Valid() {
			t.Errorf("each group goes on: %v, %v", again.Err(), second.Err())
		}
	})
}

// An operator who recovers too early, while a holder of the former group lives without a majority: the
// wait of the recovered group outlasts the lease, also of a holder whose clock is slow.
func TestARecoveryTooEarlyGrantsNothingWhileAFormerHolderIsValid(t *testing.T) {
	t.Parallel()
	outlive(t, func(t *testing.T, o *outlived) {
		o.Node(0).Drift(0.991)
		l := get(t, o.Node(0).Cluster(), "long", holdfast.WithTTL(longest))
		o.Node(1).Kill()
		o.Node(2).Kill()
		o.restored(t)
		if l.Valid() || o.holder.Valid() {
			t.Error("a lock was granted while a former holder may rely on its lease")
		}
		if got := get(t, o.Node(3).Cluster(), "long"); got.Token() <= l.Token() {
			t.Errorf("token %d after %d", got.Token(), l.Token())
		}
	})
}

// The fleet was given a longer MaxTTL after the backup was written, which knows nothing of that: a lease
// of the former group may outlive the bound in the backup. The node that opens it has the present
// configuration, and the group waited for the shorter time all the same: two holders were valid.
func TestARecoveryFromBeforeALongerMaxTTLWaitsForTheLongerOne(t *testing.T) {
	t.Parallel()
	outlive(t, func(t *testing.T, o *outlived) {
		o.bound = 10 * longest
		for _, n := range o.Nodes() {
			n.Restart()
			n.Ready()
		}
		l := get(t, o.Node(0).Cluster(), "long", holdfast.WithTTL(o.bound))
		o.Node(1).Kill()
		o.Node(2).Kill()
		n := o.Add()
		n.Open()
		got, err := n.Cluster().Acquire(until(2*o.bound), "long")
		if err != nil || l.Valid() || got.Token() <= l.Token() {
			t.Errorf("granted %v, %v, while the former lease has %v left", got, err, l.Remaining())
		}
	})
}

// A process that stood still while its group was lost, recovered elsewhere and went on for ten times the longest TTL.
func TestAnOldProcessThatComesBackAfterARecoveryKnowsThatItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	outlive(t, func(t *testing.T, o *outlived) {
		old := o.Node(0)
		old.Pause()
		o.Node(1).Kill()
		o.Node(2).Kill()
		second := o.restored(t)
		time.Sleep(10 * longest)
		if !o.holder.Valid() { // it has not run since
			t.Error("its clock went on")
		}
		old.Resume()
		if o.holder.Valid() {
			t.Error("its lease is valid at the first look")
		}
		if err := o.holder.Set(until(time.Minute), []byte("stale")); err == nil {
			t.Error("it wrote a value")
		}
		strangers(t, old.Cluster(), o.Node(3).Cluster())
		if l, err := old.Cluster().Acquire(until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("it was granted %v: %v", l, err)
		}
		if !second.Valid() || string(second.Value()) != "kept" {
			t.Errorf("the recovered group's: %v, %q", second.Err(), second.Value())
		}
	})
}

// The node that restored the backup is started again with the same configuration, which demands that, once
// others have joined its group: it read the backup again, and its second group served beside the first one for
// good. The backup may be the latest one, of the group that is still there.
func TestANodeThatRestoresItsBackupAgainJoinsTheGroupThatItHasFounded(t *testing.T) {
	t.Parallel()
	for name, latest := range map[string]bool{"the same backup": false, "the latest backup": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outlive(t, func(t *testing.T, o *outlived) {
				for _, n := range o.Nodes() {
					n.Kill()
				}
				seed, first := o.Add(), (*holdfast.Lease)(nil)
				seed.Open()
				fleet := []*sim.Node{seed, o.Add(), o.Add()}
				for _, n := range fleet[1:] {
					n.Open()
				}
				var err error
				if first, err = fleet[1].Cluster().Acquire(until(2*longest), "lock", holdfast.WithTTL(longest)); err != nil {
					t.Fatal(err)
				}
				for _, n := range fleet {
					n.Ready()
				}
				group := fleet[1].Cluster().Status().ClusterID
				if latest {
					o.backup.Reset()
					if err := fleet[1].Cluster().Backup(until(time.Minute), &o.backup); err != nil {
						t.Fatal(err)
					}
				}
				seed.Kill()
				seed.Open()
				if l, err := seed.Cluster().Acquire(until(3*longest), "lock"); err == nil {
					t.Errorf("token %d was granted, while the group's own holder is valid: %v", l.Token(), first.Valid())
				}
				for _, n := range fleet {
					if id := n.Cluster().Status().ClusterID; id != group {
						t.Errorf("node %d is in group %s, not in %s", n.Index(), id, group)
					}
				}
				seed.Ready()
			})
		})
	}
}
