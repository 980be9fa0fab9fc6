package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

// lockTable is the state machine of the lock service on hashicorp/raft: names with a queue each, of
// which the first holds the lock. It has no leases: a dead holder's lock stays held.
type lockTable struct {
	mu     sync.Mutex
	queues map[string][]string
	wanted map[string]chan struct{} // by caller and name: closed at the grant, in the caller's process
}

func newLockTable() *lockTable {
	return &lockTable{queues: make(map[string][]string), wanted: make(map[string]chan struct{})}
}

// Commands are an operation, a caller and a name, with spaces between.
const (
	tableAcquire = "a"
	tableRelease = "r"
)

// Apply carries out one command. The answer is whether the caller holds the lock.
func (t *lockTable) Apply(l *raft.Log) any {
	words := strings.SplitN(string(l.Data), " ", 3)
	if len(words) != 3 {
		return false
	}
	op, who, name := words[0], words[1], words[2]
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queues[name]
	at := slices.Index(queue, who)
	switch {
	case op == tableAcquire && at < 0:
		queue = append(queue, who)
	case op == tableRelease && at >= 0:
		queue = slices.Delete(queue, at, at+1)
	}
	if len(queue) == 0 {
		delete(t.queues, name)
		return false
	}
	t.queues[name] = queue
	first := queue[0] + " " + name
	if granted := t.wanted[first]; granted != nil {
		close(granted)
		delete(t.wanted, first)
	}
	return queue[0] == who
}

// want announces a caller of this process and the lock that it wants. The channel is closed at the
// grant.
func (t *lockTable) want(what string) <-chan struct{} {
	granted := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted[what] = granted
	return granted
}

func (t *lockTable) forget(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.wanted, what)
}

// Snapshot copies the table.
func (t *lockTable) Snapshot() (raft.FSMSnapshot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := json.Marshal(t.queues)
	return tableImage(text), err
}

// Restore replaces the table by a copy.
func (t *lockTable) Restore(from io.ReadCloser) error {
	defer from.Close()
	queues := make(map[string][]string)
	if err := json.NewDecoder(from).Decode(&queues); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = queues
	return nil
}

// tableImage is a snapshot.
type tableImage []byte

// Persist writes the snapshot.
func (i tableImage) Persist(to raft.SnapshotSink) error {
	if _, err := to.Write(i); err != nil {
		return errors.Join(err, to.Cancel())
	}
	return to.Close()
}

// Release has nothing to free.
func (tableImage) Release() {}
