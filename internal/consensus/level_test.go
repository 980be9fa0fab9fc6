package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

// A command that only some replicas know would stop the others: it gets into the log of no group
// whose level is below it.
func TestACommandAboveTheLevelOfTheGroupIsRefusedBeforeTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group := newBench().trio(t)
		defer closeAll(t, group)
		later := fsm.Encode(fsm.Serve{})
		later[1] = 255 // an operation that this version does not know
		for _, r := range group {
			r.barrier(t)
			commands := commandsOf(r)
			for _, cmd := range [][]byte{later, append(fsm.AppendVia(nil), later...)} {
				_, err := r.Propose(t.Context(), cmd)
				if !errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), fmt.Sprintf("needs %d, the group is at 1", fsm.LevelKnown+1)) {
					t.Errorf("%s: %v", r.node, err)
				}
			}
			if r.barrier(t); commandsOf(r) != commands {
				t.Errorf("%s has carried out something", r.node)
			}
		}
	})
}

func commandsOf(r *replica) (commands uint64) {
	r.Read(func(m *fsm.Machine) { commands = m.Commands() })
	return commands
}

// A version that is older than the group may not know what is in the log, so it stops at the Level,
// whether that comes from its own log or in a snapshot.
func TestAReplicaThatIsOlderThanItsGroupStopsAndSaysSo(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	for _, snapshot := range []bool{false, true} {
		b, disk := newBench(), vfs.NewMem()
		if snapshot {
			b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 20, 5 }
		}
		newer := b.open(t, 1, disk, StartBootstrap)
		newer.propose(t, birth())
		newer.propose(t, fsm.Level{Level: 3})
		for range 60 {
			newer.propose(t, fsm.Serve{})
		}
		newer.close(t)
		b.tune = func(c *Config) { c.Level = 2 }
		older, err := b.try(1, disk, StartRestart)
		if err == nil {
			older.seen.await(t, "told of the failure", func(seen *recorder) bool { return len(seen.failures) > 0 })
			err = older.Failure()
			if _, proposed := older.Propose(context.Background(), fsm.Encode(fsm.Serve{})); proposed == nil {
				t.Error("it goes on")
			}
		}
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "the group is at feature level 3, this version knows 2") {
			t.Errorf("in a snapshot: %v: %v", snapshot, err)
		}
	}
}

// A snapshot with something that a later version has added failed as one that is malformed, and its directory
// was called damaged, for which the way out is to delete it.
func TestASnapshotOfALaterLevelThatCannotBeReadIsNoDamage(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	for _, level := range []uint64{fsm.LevelKnown, fsm.LevelKnown + 1} {
		state, saved := fsm.New(), new(bytes.Buffer)
		for i, cmd := range []fsm.Command{birth(), fsm.Level{Level: level}} {
			state.Apply(uint64(i+1), fsm.ProcessOf(cmd), fsm.Encode(cmd))
		}
		if err := state.WriteSnapshot(saved, nil); err != nil {
			t.Fatal(err)
		}
		unread := saved.Bytes()[:saved.Len()-1] // in the place of a record that this version does not know
		failed := make(chan error, 1)
		m := newMachine(&counting{}, func(err error) { failed <- err })
		go func() { _ = m.RecoverFromSnapshot(bytes.NewReader(unread), nil, nil) }() // it is parked
		err := diagnose(&FailedError{Cause: <-failed})
		if later := level > fsm.LevelKnown; errors.Is(err, ErrUnsupported) != later || errors.Is(err, ErrDamaged) == later {
			t.Errorf("at level %d: %v", level, err)
		}
	}
}
