package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// lostMajority is what two of three nodes with disks leave behind when they are lost: the directory
// of the third, which is closed, and the highest token of those that were granted.
func lostMajority(t *testing.T) (dirs []string, highest holdfast.Token, former []*holdfast.Cluster) {
	t.Helper()
	for range 3 {
		dirs = append(dirs, filepath.Join(t.TempDir(), "data"))
	}
	list := fleet(t, 3, func(i int, cfg *holdfast.Config) { cfg.DataDir, cfg.MaxTTL = dirs[i], time.Minute })
	for i, c := range list {
		l := acquire(t, c, fmt.Sprint("config/", i), holdfast.WithValue([]byte("kept")))
		highest = max(highest, l.Token())
	}
	result, err := list[0].Once(within(t, 10*time.Second), "mail", func(context.Context, *holdfast.Lease) error { return nil })
	if err != nil || !result.Finished {
		t.Fatal(err)
	}
	highest = max(highest, result.Token)
	if _, err := holdfast.Recover(t.Context(), holdfast.RecoverConfig{DataDir: dirs[0], Unseen: true}); !errors.Is(err, holdfast.ErrDirInUse) {
		t.Errorf("while its node runs: %v", err)
	}
	return dirs, highest, list
}

func TestAGroupThatLostItsMajorityIsRecoveredWithHigherTokensAndOthersJoinIt(t *testing.T) {
	t.Parallel()
	dirs, highest, list := lostMajority(t)
	former := list[0].Status().ClusterID
	for _, c := range list {
		closed(t, c)
	}
	if err := os.RemoveAll(dirs[1]); err != nil {
		t.Fatal(err)
	}
	report, err := holdfast.Recover(t.Context(), holdfast.RecoverConfig{DataDir: dirs[0], Unseen: true, AllStopped: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if report.OldClusterID != former || report.Token < highest || report.Keys != 1 || report.Complete || report.Wait != 0 || len(report.OldVoters) != 3 {
		t.Errorf("%+v", report)
	}
	first := openIn(t, dirs[0])
	second := openIn(t, dirs[1], first.Addr())
	allReady(t, []*holdfast.Cluster{first})
	if err := second.Ready(within(t, 20*time.Second)); err != nil {
		t.Fatalf("%v; the recovered node: %v", err, first.Err())
	}
	if first.Status().ClusterID != report.ClusterID || second.Status().ClusterID != report.ClusterID {
		t.Errorf("groups %s and %s, recovered %s", first.Status().ClusterID, second.Status().ClusterID, report.ClusterID)
	}
	l := acquire(t, second, "config/1")
	if l.Token() <= highest || string(l.Value()) != "kept" {
		t.Errorf("token %d after %d, value %q", l.Token(), highest, l.Value())
	}
	ran, err := second.Once(within(t, 10*time.Second), "mail", func(context.Context, *holdfast.Lease) error { return nil })
	if err != nil || ran.Ran {
		t.Errorf("a finished key ran again: %v", err)
	}
	old := openIn(t, dirs[2], first.Addr()) // an old node that comes back refuses to mix
	if err := old.Ready(within(t, 2*time.Second)); err == nil || old.Status().ClusterID != former {
		t.Errorf("the old node: %v, group %s", err, old.Status().ClusterID)
	}
	polled(t, "news of the other group", func() bool {
		return len(old.Status().Foreign) == 1 && len(first.Status().Foreign) == 1
	})
}

// The operator has not said that all are stopped: a holder of the former group may rely on its lease.
func TestARecoveredGroupGrantsNothingWhileALeaseOfTheFormerMayBeValid(t *testing.T) {
	t.Parallel()
	c := single(t, func(cfg *holdfast.Config) { cfg.MaxTTL = 2 * time.Second })
	highest := acquire(t, c, "lock").Token()
	var copied bytes.Buffer
	if err := c.Backup(within(t, 10*time.Second), &copied); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	restored, err := holdfast.Open(t.Context(), holdfast.Config{Restore: &copied, Bootstrap: 1, MaxTTL: 2 * time.Second, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restored.Close() })
	if _, err := restored.Acquire(within(t, 500*time.Millisecond), "lock"); err == nil {
		t.Error("it granted at once")
	}
	if l := acquire(t, restored, "lock"); l.Token() <= highest || time.Since(began) < 2*time.Second {
		t.Errorf("token %d after %d, %v after it was opened", l.Token(), highest, time.Since(began))
	}
}

// The group waits for the hook of Config.TokenFloor. The backup was empty, and no error: it would have
// taken the place of a good one.
func TestAGroupThatIsNotBornHasNoBackup(t *testing.T) {
	t.Parallel()
	c, err := holdfast.Open(t.Context(), holdfast.Config{Bootstrap: 1, Logger: quiet(), TokenFloor: func(context.Context) (holdfast.Token, error) {
		return 0, errors.New("the database is down")
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var b bytes.Buffer
	if err := c.Backup(within(t, 20*time.Second), &b); !errors.Is(err, holdfast.ErrNoQuorum) || b.Len() > 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

func TestRecoverRefusesWhatItCannotTrustAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dirs, _, list := lostMajority(t)
	var b bytes.Buffer
	if err := list[0].Backup(within(t, 10*time.Second), &b); err != nil {
		t.Fatal(err)
	}
	closed(t, list[0])
	join := []string{list[1].Addr(), list[2].Addr()}
	recovers := func(cfg holdfast.RecoverConfig) error {
		cfg.Logger = quiet()
		_, err := holdfast.Recover(within(t, 30*time.Second), cfg)
		return err
	}
	altered := bytes.Clone(b.Bytes())
	altered[len(altered)/2] ^= 1
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		err  error
		is   error
		text string
	}{
		"no Join":           {recovers(holdfast.RecoverConfig{DataDir: dirs[0]}), holdfast.ErrInvalid, "Unseen"},
		"a living majority": {recovers(holdfast.RecoverConfig{DataDir: dirs[0], Join: join}), holdfast.ErrGroupAlive, "do not recover"},
		"other secrets":     {recovers(holdfast.RecoverConfig{DataDir: dirs[0], Join: join, Secrets: []string{"another secret of sixteen bytes"}}), holdfast.ErrInvalid, "Unseen"},
		"in use":            {recovers(holdfast.RecoverConfig{DataDir: dirs[1], Unseen: true}), holdfast.ErrDirInUse, "another data directory"},
		"no group":          {recovers(holdfast.RecoverConfig{DataDir: empty, Unseen: true}), holdfast.ErrIncompatible, "or a backup"},
		"another fleet":     {recovers(holdfast.RecoverConfig{DataDir: dirs[0], Unseen: true, Cluster: "x"}), holdfast.ErrIncompatible, "correct Cluster"},
		"altered":           {recovers(holdfast.RecoverConfig{DataDir: empty, From: bytes.NewReader(altered), Unseen: true}), holdfast.ErrDamaged, "take another backup"},
		"truncated":         {recovers(holdfast.RecoverConfig{DataDir: empty, From: io.LimitReader(&b, 200), Unseen: true}), holdfast.ErrDamaged, "truncated"},
	} {
		if !errors.Is(tc.err, tc.is) || !strings.Contains(tc.err.Error(), tc.text) || strings.Contains(tc.err.Error(), "delete the directory") {
			t.Errorf("%s: %v", name, tc.err)
		}
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dirs[0], "identity.json"), later, later); err != nil {
		t.Fatal(err)
	}
	if err := recovers(holdfast.RecoverConfig{DataDir: dirs[0], Unseen: true}); !errors.Is(err, holdfast.ErrClockBehind) || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("written in an hour: %v", err)
	}
}

// The raft leader alone makes backups, and what was stored is whole.
func TestBackupsAreMadeEveryPeriodAndCanBeRead(t *testing.T) {
	t.Parallel()
	stored := make(chan holdfast.BackupInfo, 16)
	c := single(t, func(cfg *holdfast.Config) {
		cfg.BackupEvery = time.Second
		cfg.BackupTo = func(_ context.Context, backup io.Reader) error {
			info, err := holdfast.CheckBackup(backup)
			if err == nil {
				stored <- info
			}
			return err
		}
	})
	acquire(t, c, "lock", holdfast.WithValue([]byte("v")))
	if info := <-stored; info.ClusterID != c.Status().ClusterID || info.Commands == 0 || info.Unconfirmed {
		t.Errorf("%+v", info)
	}
	polled(t, "the metric", func() bool {
		b := c.Status().Metrics.Backups
		return b.Stored > 0 && b.Last > 0 && b.Failed == 0
	})
}

// The disk or the mount that a backup is written to hangs, and heeds no context.
func TestCloseDoesNotWaitForABackupThatHangs(t *testing.T) {
	t.Parallel()
	begun, hangs := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	c := single(t, func(cfg *holdfast.Config) {
		cfg.BackupEvery, cfg.Logger = time.Second, quiet()
		cfg.BackupTo = func(context.Context, io.Reader) error {
			close(begun)
			<-hangs
			return nil
		}
	})
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close waits for Config.BackupTo")
	}
}

// Fleets without disks have no other way out: what the last node has, marked as such.
func TestANodeWithoutAMajorityWritesABackupThatSaysSo(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		last := s.RaftLeader()
		get(t, last.Cluster(), "config", holdfast.WithValue([]byte("kept")))
		for _, n := range others(s, last) {
			n.Kill()
		}
		time.Sleep(time.Minute)
		var b bytes.Buffer
		if err := last.Cluster().Backup(until(time.Minute), &b); err != nil {
			t.Fatal(err)
		}
		info, err := holdfast.CheckBackup(&b)
		if err != nil || !info.Unconfirmed || info.Names != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// openIn opens a node on a directory of the test's fleet, which joins and founds nothing.
func openIn(t *testing.T, dir string, join ...string) *holdfast.Cluster {
	t.Helper()
	c, err := holdfast.Open(t.Context(), holdfast.Config{Cluster: testkit.Cluster(t), DataDir: dir, Join: join, Bootstrap: -1, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
