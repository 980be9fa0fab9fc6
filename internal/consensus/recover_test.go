package consensus

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

const recoveredCluster = "c0000000-0000-4000-8000-00000000000c"

func identified(t *testing.T, text string) (id fsm.Node) {
	t.Helper()
	id, err := fsm.ParseNode(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A replica that lost the others has more in its log than it knows to be committed: all of it counts.
// The group of one goes on from there, and brings others up by a snapshot, as its log has no
// beginning.
func TestARecoveredGroupHasAllThatItsReplicaHadAndBringsOthersUp(t *testing.T) {
	t.Parallel()
	for _, entries := range []uint64{0, 10} { // without and with a snapshot of the former group
		b := newBench()
		b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = entries, 2 }
		group := b.trio(t)
		group[0].propose(t, birth())
		for i := range 30 {
			group[0].propose(t, fsm.Level{Level: uint64(i)})
		}
		group[0].barrier(t)
		var want fsm.Info
		group[0].Read(func(m *fsm.Machine) { want = m.Info() })
		disk, node := group[0].fs, group[0].node
		closeAll(t, group)

		read, err := Read(t.Context(), Config{Node: node, Incarnation: 100 << RunBits, Cluster: testCluster, Level: math.MaxUint64, Dir: "/data/raft", FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		if i := read.State.Info(); i.Level != want.Level || i.Commands < want.Commands || read.Index < want.Applied || read.Term == 0 {
			t.Errorf("read %+v at %d, was %+v", i, read.Index, want)
		}
		if !slices.Equal(read.Voters, []string{nodeID(1), nodeID(2), nodeID(3)}) {
			t.Errorf("voters %v", read.Voters)
		}
		if again, err := Read(t.Context(), Config{Node: node, Incarnation: 100 << RunBits, Cluster: testCluster, Level: math.MaxUint64, Dir: "/data/raft", FS: disk}); err != nil || again.Index != read.Index {
			t.Errorf("read again: %v", err)
		}
		if err := read.State.Recover(fsm.Recovery{Cluster: identified(t, recoveredCluster), AllStopped: true}); err != nil {
			t.Fatal(err)
		}

		one := vfs.NewMem()
		if err := Found(t.Context(), Config{Node: nodeID(7), Cluster: recoveredCluster, Level: math.MaxUint64, Dir: "/data/raft", FS: one}, read.State); err != nil {
			t.Fatal(err)
		}
		b = newBench()
		b.tune = func(c *Config) { c.Cluster = recoveredCluster }
		first := b.open(t, 7, one, StartRestart)
		second := b.add(t, first, 8, vfs.NewMem())
		first.promote(t, second)
		first.propose(t, fsm.Level{Level: 99})
		second.barrier(t)
		second.Read(func(m *fsm.Machine) {
			if i := m.Info(); i.Level != 99 || i.Cluster != identified(t, recoveredCluster) || i.Counter < uint64(time.Now().Add(-time.Hour).Unix())<<fsm.TokenBits {
				t.Errorf("a replica that joined has %+v", i)
			}
		})
		closeAll(t, []*replica{first, second})
	}
}

// The directories of a group are compared as candidates of an election are.
func TestOfTwoDirectoriesTheOneThatAnElectionPrefersIsFurther(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b Reading
		want bool
	}{
		{Reading{Term: 2, Index: 5}, Reading{Term: 1, Index: 9}, true},
		{Reading{Term: 2, Index: 5}, Reading{Term: 2, Index: 4}, true},
		{Reading{Term: 2, Index: 5}, Reading{Term: 2, Index: 5}, false},
	} {
		if tc.a.Further(tc.b) != tc.want || tc.want && tc.b.Further(tc.a) {
			t.Error(fmt.Sprint(tc))
		}
	}
}
