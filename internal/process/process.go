// Package process starts other processes, mostly this program again, and ends them. Tests, the
// benchmark, the chaos run and the examples run their fleets with it. A child hears its parent on
// its standard input, whose end is the order to end; on Linux the system kills a child whose parent
// has died.
package process

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// outputMax is how long a process that has ended may keep its output open, through children of its
// own.
const outputMax = 10 * time.Second

// Process is a child of this process.
type Process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	done  chan struct{}
	err   error // before done is closed
}

// Self is the command that runs this program again, with this process's environment and standard
// error.
func Self(args ...string) *exec.Cmd {
	self, err := os.Executable()
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	if err != nil {
		cmd.Err = err // Start returns it
	}
	return cmd
}

// Start starts a process. The caller has set all of cmd but Stdin. A writer as its output gets all
// of it before Done is closed; Lines is one.
func Start(cmd *exec.Cmd) (*Process, error) {
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	dieWithParent(cmd)
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = outputMax
	}
	p := &Process{cmd: cmd, input: input, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run is the life of the process. It keeps its thread, as Linux takes the end of the thread that
// has started a child for the death of the parent (https://go.dev/issue/27505).
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the number that the system gave the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its output was passed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells after Done how the process ended: nil is code 0, an *exec.ExitError another code or a
// signal. Before Done it is nil.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Send writes a line to the process's standard input. It blocks while the process leaves the pipe
// full, until it is killed. Lines that several goroutines send at once stay whole.
func (p *Process) Send(line string) error {
	_, err := io.WriteString(p.input, line+"\n")
	return err
}

// Signal sends a signal. That of a process that has ended is os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process, by SIGKILL where there are signals, and waits for its end. Again is
// harmless.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error is that it has ended
	<-p.done
}

// Stop ends the process's standard input, wakes the process if it is stopped by a signal, and waits
// for its end. It kills a process that has not ended after patience. It returns what Err does then.
// Again is harmless.
func (p *Process) Stop(patience time.Duration) error {
	_ = p.input.Close()
	p.wake()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Kill()
	}
	return p.err
}

// Lines is a writer that passes on each whole line without its end, from one goroutine at a time.
// The slice is the function's until it returns. What is after the last end of a line, as when a
// process is killed, is dropped.
func Lines(heard func(line []byte)) io.Writer { return &lines{heard: heard} }

type lines struct {
	heard func([]byte)
	begun []byte // of a line
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.begun = append(l.begun, text...)
	rest := l.begun
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			break
		}
		l.heard(line[:len(line):len(line)]) // what is appended to it goes elsewhere
		rest = after
	}
	l.begun = append(l.begun[:0], rest...)
	return len(text), nil
}
