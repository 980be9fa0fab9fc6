package settings_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// nobody runs the program without root's rights, from a place where such a user finds it.
func nobody(cmd *exec.Cmd) {
	cmd.Path = "/proc/self/exe"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// standing is start as nobody in a directory that nobody could not go to.
func standing(t *testing.T, dir string) string {
	t.Helper()
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(home); err != nil {
			t.Fatal(err)
		}
	}()
	return start(t, "", nobody)
}

// A service that is started by another user, who stands in a directory of their own, is such a
// case.
func TestADirectoryThatMayNotBeSearchedDoesNotEndTheProgram(t *testing.T) { // alone: it moves
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := directory(t, "any", "")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := standing(t, dir); !strings.HasPrefix(got, "/ <nil> dragonboat-hard-settings.json,dragonboat-soft") {
		t.Errorf("the program says %q", got)
	}
}

func TestADirectoryThatMayNotBeReadIsReturnedTo(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := directory(t, "dragonboat-soft-settings.json", "{")
	for d := dir; len(d) > len(os.TempDir()); d = d[:strings.LastIndexByte(d, '/')] {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := start(t, dir, nobody), dir+" <nil> dragonboat-soft-settings.json"; got != want {
		t.Errorf("the program says %q, want %q", got, want)
	}
}
