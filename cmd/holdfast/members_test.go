package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/view"
)

func TestAnOperatorMovesTheRaftLeaderAndRemovesNoNodeThatLives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	testkit.AllReady(t, f.nodes)
	for _, c := range f.nodes {
		// A voter of a busy machine may lag behind for the time of a transfer, or be voted out again.
		testkit.Settles(t, patience, "transfer to "+c.ID(), func() bool {
			r := f.run(t, "transfer-leader", c.ID(), "--reason", "a test")
			if r.code != 0 && !strings.Contains(r.err, holdfast.ErrNotTransferred.Error()) {
				t.Fatalf("the transfer to %s: code %d: %s", c.ID(), r.code, r.err)
			}
			return r.code == 0 && slices.ContainsFunc(decode[[]view.Member](t, f, "members"), func(m view.Member) bool {
				return m.RaftLeader && m.ID == c.ID()
			})
		})
	}
	f.refused(t, 2, "--reason", "transfer-leader", f.nodes[0].ID())
	f.refused(t, 2, "no voter", "transfer-leader", "00000000-0000-0000-0000-000000000001", "--reason", "a test")
	f.refused(t, 2, "--yes", "remove-node", f.nodes[0].ID(), "--reason", "a test") // nobody can be asked
	f.refused(t, 1, "Stop its process first", "remove-node", f.nodes[0].ID(), "--reason", "a test", "--yes")
}

// Without a majority nothing else says which nodes are missing.
func TestMembersAndABackupAreThereWithoutAMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, func(_ int, cfg *holdfast.Config) { cfg.DataDir = t.TempDir() })
	testkit.AllReady(t, f.nodes)
	path := filepath.Join(t.TempDir(), "backup")
	if out := f.ok(t, "backup", path); !strings.Contains(out, "whole: ") || strings.Contains(out, "without a majority") {
		t.Errorf("a backup is %q", out)
	}
	if mode, err := os.Stat(path); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("a backup, which has the values of all locks, can be read by others: %v, %v", mode, err)
	}
	f.refused(t, 1, "there already", "backup", path)
	f.ok(t, "check-backup", path)

	for _, c := range f.nodes[1:] {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := f.run(t, "members", "--timeout", "3s")
	if r.code != 69 || !strings.Contains(r.out, f.nodes[1].ID()) || !strings.Contains(r.out, "voter") {
		t.Errorf("members without a majority: code %d: %s%s", r.code, r.out, r.err)
	}
	if out := f.ok(t, "backup", path+"2", "--timeout", "3s"); !strings.Contains(out, "without a majority") {
		t.Errorf("a backup without a majority is %q", out)
	}
}

// What the fleet does changes with its raft leader where nodes are configured otherwise.
func TestTheDoctorNamesNodesThatAreConfiguredOtherwise(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, func(i int, cfg *holdfast.Config) { cfg.MaxTTL = time.Duration(i+5) * time.Minute })
	var members finding
	testkit.Polled(t, "gossip to tell it", func() bool {
		for _, s := range decode[[]finding](t, f, "doctor") {
			if s.Check == "members" {
				members = s
			}
		}
		return members.State == "warning"
	})
	if !strings.Contains(members.Detail, "n1") || !strings.Contains(members.Detail, "MaxTTL 6m0s, not 5m0s") {
		t.Errorf("%+v", members)
	}
}
