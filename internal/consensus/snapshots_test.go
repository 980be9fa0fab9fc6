package consensus

import (
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// greet lets the replica's process acquire.
func (r *replica) greet(t *testing.T) {
	t.Helper()
	r.propose(t, fsm.Serve{})
	r.propose(t, fsm.Hello{Node: r.self.Node, Incarnation: r.self.Incarnation, Name: "n"})
}

// session is one of the replica's process.
func (r *replica) sessionID() fsm.SessionID {
	return fsm.SessionID{Node: r.self.Node, Incarnation: r.self.Incarnation, Number: 1}
}

func (r *replica) progress() (entries, commands uint64) {
	r.Read(func(m *fsm.Machine) { entries, commands = m.Applied(), m.Commands() })
	return entries, commands
}

// starting sees the state that a replica begins with.
type starting struct {
	Observer
	see func(*fsm.Machine)
}

func (s starting) Restored(m *fsm.Machine) {
	s.see(m)
	s.Observer.Restored(m)
}

// The engine counts entries. With hundreds of commands in each, a replica would be busy for half a
// minute when it starts.
func TestARestartAppliesABoundedNumberOfCommandsHoweverManyAreInAnEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, batches, entries = 100, 40, 50 // fewer than the engine would write a snapshot for
		b, fs := newBench(), vfs.NewMem()
		began := uint64(0)
		b.tune = func(c *Config) {
			c.SnapshotEntries = entries
			c.Observer = starting{c.Observer, func(m *fsm.Machine) { began = m.Commands() }}
		}
		r := b.open(t, 1, fs, StartBootstrap)
		r.propose(t, birth())
		r.greet(t)
		var all fsm.Batch
		for i := range uint64(size) {
			id := r.sessionID()
			id.Number = i + 1
			all.Commands = append(all.Commands, fsm.CloseSession{Session: id})
		}
		for range batches {
			if out := r.propose(t, all); len(out.Each) != size {
				t.Fatal(out)
			}
			synctest.Wait() // for what it brought about
		}
		_, commands := r.progress()
		r.close(t)
		r = b.open(t, 1, fs, StartRestart)
		defer r.close(t)
		r.barrier(t)
		after, most := commands-began, uint64(snapshotCommands*entries+2*size)
		if commands < size*batches || after > most {
			t.Errorf("of %d commands %d were applied again, %d at most", commands, after, most)
		}
	})
}
