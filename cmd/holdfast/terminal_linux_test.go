package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a command at a terminal: what is typed, and what is seen.
type terminal struct {
	master, slave *os.File
	ended         chan error
	seen          strings.Builder
}

func (f *fleet) atTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	cmd := f.command(args...)
	cmd.Env = append(cmd.Env, env...)
	return terminalOf(t, cmd)
}

// terminalOf starts a command at a terminal of its own.
func terminalOf(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &terminal{master: master, slave: slave, ended: make(chan error, 1)}
	go func() { s.ended <- cmd.Wait() }()
	return s
}

// sees reads until something is seen.
func (s *terminal) sees(t *testing.T, what string) {
	t.Helper()
	for text := make([]byte, 1000); !strings.Contains(s.seen.String(), what); {
		n, err := s.master.Read(text)
		s.seen.Write(text[:n])
		if err != nil && !strings.Contains(s.seen.String(), what) {
			t.Fatalf("no %q: %v: %s", what, err, s.seen.String())
		}
	}
}

func (s *terminal) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end of the command, and returns all that was seen: what is written after it, too,
// comes behind.
func (s *terminal) end(t *testing.T) (seen, ended string) {
	t.Helper()
	ended = fmt.Sprint(<-s.ended)
	const mark = "that was all"
	if _, err := s.slave.WriteString(mark); err != nil {
		t.Fatal(err)
	}
	s.sees(t, mark)
	return s.seen.String(), ended
}

func TestTheTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	s := f.atTerminal(t, nil, "run", "job", "--", "sh", "-c", `read line; trap "echo int; exit 9" INT; echo "read $line"; while :; do sleep 0.01; done`)
	s.types(t, "typed\n")
	s.sees(t, "read typed")
	s.types(t, "\x1a") // Ctrl-Z: a holder that stands still would lose its lock, so it goes on
	s.types(t, "\x03")
	if seen, ended := s.end(t); !strings.Contains(seen, "int") || ended != "exit status 9" {
		t.Errorf("%s: %s", ended, seen)
	}
}

func TestTheOperatorIsAskedAtATerminal(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.hold(t, "job")
	for _, test := range []struct {
		answer, ended string
		done          bool
	}{{"\n", "exit status 1", false}, {"n\n", "exit status 1", false}, {"\x03", "exit status 130", false}, {"yes\n", "<nil>", true}} {
		s := f.atTerminal(t, nil, "release", "job", "--force", "--reason", "a test")
		s.sees(t, "Go on? [y/N]")
		s.types(t, test.answer)
		if seen, ended := s.end(t); ended != test.ended || strings.Contains(seen, "is over") != test.done {
			t.Errorf("%q: %s: %s", test.answer, ended, seen)
		}
		if !test.done && !l.Valid() {
			t.Errorf("%q: the lease is over", test.answer)
		}
	}
	<-l.Done()
}

func TestColoursAreForTerminalsAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	colours := func(env ...string) bool {
		seen, _ := f.atTerminal(t, append(env, "TERM=xterm"), "status").end(t)
		return strings.Contains(seen, "\x1b[")
	}
	if !colours() || colours("NO_COLOR=1") || strings.Contains(f.ok(t, "status"), "\x1b[") {
		t.Error("colours are elsewhere")
	}
}

// A command that cannot be executed had been given the terminal before: the script that had called us could not read
// any more, and Ctrl-C reached nobody.
func TestTheTerminalComesBackFromACommandThatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	script := write(t, filepath.Join(t.TempDir(), "script"), "no program")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := f.command("run", "job", "--", script)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@"; read line; echo "read $line"`, cmd.Path}, cmd.Args[1:]...)
	s := terminalOf(t, cmd)
	s.types(t, "typed\n")
	s.sees(t, "read typed")
	s.end(t)
}

// The number of a command that has ended may be another process' by now.
func TestACommandThatHasEndedGetsNoSignal(t *testing.T) {
	t.Parallel()
	alone := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	group1, other := alone(), alone()
	g := &group{id: group1.Process.Pid, command: other.Process, done: make(chan struct{})}
	close(g.done)
	g.signal(syscall.SIGTERM)
	_ = group1.Wait()
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the other process: %v", err)
	}
}
