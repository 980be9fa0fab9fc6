package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestABackupIsRestoredIntoADirectoryThatANodeOpens(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, dir := testkit.Within(t, patience), t.TempDir()
	l := f.hold(t, "job", holdfast.WithValue([]byte("kept")))
	if _, err := f.nodes[0].Once(ctx, "k", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := f.nodes[0].Backup(ctx, &backup); err != nil {
		t.Fatal(err)
	}
	file, data := write(t, filepath.Join(dir, "backup"), backup.String()), filepath.Join(dir, "data")
	if out := f.ok(t, "check-backup", file); !strings.Contains(out, `fleet "cli"`) || !strings.Contains(out, "1 finished key") {
		t.Errorf("it is %s", out)
	}
	damaged := write(t, filepath.Join(dir, "damaged"), backup.String()[:backup.Len()-1])
	f.refused(t, 1, "another backup", "check-backup", damaged)
	f.refused(t, 2, "--data-dir", "restore", file)
	f.refused(t, 2, "--yes", "restore", file, "--data-dir", data)
	f.refused(t, 1, "there is nothing to recover", "restore", file, "--data-dir", data, "--yes") // it sees the group
	if _, err := os.Stat(filepath.Join(data, "identity.json")); err == nil {
		t.Error("something was restored")
	}
	f.nodes[0].Close()
	report := decode[recovered](t, f, "restore", file, "--data-dir", data, "--yes", "--unseen", "--all-stopped")
	if report.Keys != 1 || report.Token <= l.Token() || report.DataDir != data {
		t.Errorf("the report is %+v", report)
	}
	c, err := holdfast.Open(ctx, holdfast.Config{DataDir: data, Cluster: "cli", Secrets: []string{secret}, Logger: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info, err := c.Inspect(ctx, "job"); err != nil || string(info.Value) != "kept" {
		t.Errorf("the lock is %+v, %v", info, err)
	}
	// The advice was that of the former group, which has ended: to stop all of its nodes.
	f.refused(t, 1, "Another recovery may have made that group", "restore", file, "--data-dir", filepath.Join(dir, "again"), "--join", c.Addr(), "--yes")
}

// The command said that a backup is whole, and a power cut took its name away.
func TestABackupHasItsNameWhenItsDirectoryIsSynced(t *testing.T) {
	t.Parallel()
	dir, full := t.TempDir(), errors.New("the disk is full")
	part, path := write(t, filepath.Join(dir, "part"), "a backup"), filepath.Join(dir, "backup")
	var synced []string
	err := name(part, path, func(of string) error {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the directory is synced without the name: %v", err)
		}
		synced = append(synced, of)
		return full
	})
	if !slices.Equal(synced, []string{dir}) || !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v is synced: %v", synced, err)
	}
	if err := name(part, path, syncDir); !errors.Is(err, os.ErrExist) {
		t.Errorf("the name of another file: %v", err)
	}
	if err := name(part, path+"2", syncDir); err != nil {
		t.Error(err)
	}
}

func TestAGroupIsRecoveredFromTheDirectoryOfAStoppedNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFleet(t, 1, func(_ int, cfg *holdfast.Config) { cfg.DataDir = dir })
	f.refused(t, 1, "Stop the process", "recover", "--data-dir", dir, "--unseen", "--yes")
	f.nodes[0].Close()
	f.refused(t, 2, "--data-dir", "recover", "--yes")
	if out := f.ok(t, "recover", "--data-dir", dir, "--unseen", "--yes"); !strings.Contains(out, "is recovered as group") {
		t.Error(out)
	}
	f.refused(t, 1, "no such data directory", "recover", "--data-dir", filepath.Join(dir, "none"), "--unseen", "--yes")
}

func TestASecretIsRandomAndOpensAFleet(t *testing.T) {
	t.Parallel()
	f := &fleet{}
	first, second := f.ok(t, "keygen"), f.ok(t, "keygen")
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(first)); err != nil || len(raw) != secretBytes || first == second {
		t.Errorf("%q, %q: %v", first, second, err)
	}
}
