package consensus

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// machine is the fsm.Machine as a statemachine.IConcurrentStateMachine. The engine never calls
// Update, PrepareSnapshot and RecoverFromSnapshot at the same time; readers come at any time.
type machine struct {
	observer Observer
	restored func()      // before a snapshot's members are announced
	fail     func(error) // stops the group for good
	self     fsm.Process // only its callers wait for outcomes here

	backlog *backlog
	figures *Figures
	known   uint64 // highest feature level
	pulse   pulse

	sets   atomic.Bool // fsm.Machine.Sets, for those that would wait for a lock only to read it
	mu     sync.RWMutex
	state  *fsm.Machine
	events []fsm.Event
}

// eventsKept bounds the buffer of events that is reused. The end of a node with a million locks
// needs 200 MB once.
const eventsKept = 4096

func newMachine(observer Observer, fail func(error)) *machine {
	return &machine{observer: observer, fail: fail, state: fsm.New(), known: fsm.LevelKnown,
		backlog: newBacklog(math.MaxUint64/snapshotCommands, func() {}), figures: new(Figures)}
}

// guarded runs a call of the engine. On a panic or an error, from which the engine would panic, it
// fails the group and parks the caller.
func (m *machine) guarded(what string, call func() error) {
	err := engine.Guard(call)
	if err == nil {
		return
	}
	m.fail(fmt.Errorf("%s: %w", what, err))
	engine.Park()
}

// Update applies a batch of commands and calls the observer.
func (m *machine) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	m.pulse.step()
	m.guarded("applying commands", func() error {
		events, err := m.apply(entries)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			m.observer.Applied(events)
		}
		return nil
	})
	return entries, nil
}

func (m *machine) apply(entries []statemachine.Entry) ([]fsm.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.events)
	m.events = m.events[:0]
	if cap(m.events) > eventsKept {
		m.events = nil
	}
	before, bytes := m.state.Commands(), 0
	for i := range entries {
		bytes += len(entries[i].Cmd)
		by, cmd, _ := fsm.CutProcess(entries[i].Cmd) // zero and nil if it is too short
		outcome, events := m.state.Apply(entries[i].Index, by, cmd)
		if outcome.Code == fsm.CodeUnsupported {
			return nil, fmt.Errorf("%w (index %d)", ErrUnsupported, entries[i].Index)
		}
		if err := levelError(m.state, m.known); err != nil {
			return nil, err
		}
		m.events = append(m.events, events...)
		if by == m.self {
			entries[i].Result.Value, entries[i].Result.Data = outcome.Pack()
		}
	}
	m.sets.Store(m.state.Sets())
	m.backlog.add(m.state.Commands()-before, uint64(bytes))
	return m.events, nil
}

// levelError is the error of a replica that is older than its group: it knows no level as high. It
// stops before it carries out anything of that level.
func levelError(state *fsm.Machine, known uint64) error {
	if level := state.Level(); level > known {
		return fmt.Errorf("%w: the group is at feature level %d, this version knows %d", ErrUnsupported, level, known)
	}
	return nil
}

// Lookup is not used: Group.Read reads the state directly.
func (m *machine) Lookup(any) (any, error) { return nil, nil }

// PrepareSnapshot forks the state in O(1).
func (m *machine) PrepareSnapshot() (fork any, err error) {
	m.guarded("forking the state", func() error {
		state := m.fork()
		m.backlog.reset(state.Applied())
		fork = state
		return nil
	})
	return fork, nil
}

// SaveSnapshot writes a fork while commands go on.
func (m *machine) SaveSnapshot(fork any, w io.Writer, _ statemachine.ISnapshotFileCollection, stop <-chan struct{}) error {
	var stopped error
	m.guarded("writing a snapshot", func() error {
		began, counted := time.Now(), &sized{Writer: w}
		err := fork.(*fsm.Machine).WriteSnapshot(counted, stop)
		if errors.Is(err, fsm.ErrStopped) {
			stopped, err = statemachine.ErrSnapshotStopped, nil
		} else if err == nil {
			m.figures.Taken.Count(time.Since(began), counted.bytes)
		}
		return err
	})
	return stopped
}

// RecoverFromSnapshot replaces the state by one that was saved here or by another replica.
func (m *machine) RecoverFromSnapshot(r io.Reader, _ []statemachine.SnapshotFile, _ <-chan struct{}) error {
	m.guarded("reading a snapshot", func() error {
		began, counted := time.Now(), &sized{Reader: r}
		var state *fsm.Machine
		err := m.pulse.reading(counted, func(r io.Reader) (err error) {
			state, err = fsm.ReadSnapshot(r)
			return err
		})
		if errors.Is(err, fsm.ErrUnsupported) {
			return fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		if err == nil {
			err = levelError(state, m.known)
		}
		if err != nil {
			return err
		}
		m.figures.Installed.Count(time.Since(began), counted.bytes)
		m.mu.Lock()
		m.state = state
		m.sets.Store(state.Sets())
		m.mu.Unlock()
		m.backlog.reset(state.Applied())
		m.restored()
		m.observer.Restored(m.fork()) // its own copy: readers may fork the state meanwhile
		return nil
	})
	return nil
}

// Close does nothing: the state stays readable.
func (m *machine) Close() error { return nil }

// incarnation is that of a node's last process in the state; false if there is none.
func (m *machine) incarnation(node fsm.Node) (incarnation uint64, ok bool) {
	m.read(func(state *fsm.Machine) { incarnation, ok = state.Incarnation(node) })
	return incarnation, ok
}

func (m *machine) level() (level uint64) {
	m.read(func(state *fsm.Machine) { level = state.Level() })
	return level
}

// cost is what a command costs an entry. Of the Release of a set the state tells it.
func (m *machine) cost(cmd []byte) int {
	cost, least := fsm.Cost(cmd)
	if least && m.sets.Load() {
		m.read(func(state *fsm.Machine) { cost = state.Cost(cmd) })
	}
	return cost
}

func (m *machine) read(fn func(*fsm.Machine)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	fn(m.state)
}

func (m *machine) answer(q fsm.Question) fsm.Answer {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Answer(q)
}

func (m *machine) fork() *fsm.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork()
}

// sized counts the bytes of a snapshot.
type sized struct {
	io.Writer
	io.Reader
	bytes uint64
}

func (s *sized) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.bytes += uint64(n)
	return n, err
}

func (s *sized) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.bytes += uint64(n)
	return n, err
}
