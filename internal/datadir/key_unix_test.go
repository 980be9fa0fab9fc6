//go:build unix

package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// A mount or a systemd StateDirectory is there before, with mode 0755: the key was 0644, and any user of the
// machine with the secret of the fleet could prove to be this node.
func TestNobodyElseMayReadTheKeyWhateverTheDirectory(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, keyName)
	reopened := func(what string) {
		t.Helper()
		d, err := Open(path, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != keyMode || d.Key() == nil {
			t.Errorf("%s: mode %v, read: %v", what, mode, d.Key() != nil)
		}
	}
	reopened("new")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	reopened("of an earlier version")
	if err := os.WriteFile(file+".tmp", nil, 0o644); err != nil { // of a process that died
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, identityName)); err != nil {
		t.Fatal(err)
	}
	reopened("beside what an earlier process has left")
}
