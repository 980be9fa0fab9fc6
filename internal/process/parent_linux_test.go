package process

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAProcessDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent, said := start(t, "parent")
	pid, err := strconv.Atoi(<-said)
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(orphan)
	parent.Kill()
	for { // the end of a process makes its descriptor readable
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(orphan), Events: unix.POLLIN}}, int((time.Minute).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			t.Fatal(err)
		case n == 0:
			_ = unix.PidfdSendSignal(orphan, unix.SIGKILL, nil, 0)
			t.Fatal("the child of a killed process lives on")
		default:
			return
		}
	}
}

// A thread of Go ends with a goroutine that is locked to it; the system takes that for the death of
// a parent.
func TestAProcessOutlivesTheThreadOfWhoeverStartedIt(t *testing.T) {
	t.Parallel()
	started := make(chan *Process)
	said := make(chan string, 2)
	ended := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked
		p, err := Start(command("echo", func(line []byte) { said <- string(line) }))
		if err != nil {
			t.Error(err)
		}
		started <- p
		ended <- unix.Gettid()
	}()
	p := <-started
	defer p.Kill()
	for tid, pid := <-ended, unix.Getpid(); tid != pid && unix.Tgkill(pid, tid, 0) == nil; { // the first thread stays
		runtime.Gosched() // until the thread is gone
	}
	if err := p.Send("alive"); err != nil || <-said != "alive" {
		t.Error("the process has ended:", err)
	}
}

func TestAStoppedProcessIsWokenToEnd(t *testing.T) {
	t.Parallel()
	p, said := start(t, "echo")
	if err := p.Send("here"); err != nil || <-said != "here" {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(time.Minute); err != nil || <-said != "the end" {
		t.Errorf("it did not end by itself: %v", err)
	}
}
