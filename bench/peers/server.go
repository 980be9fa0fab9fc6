package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
)

// endPatience is how long a server may take to end in good order.
const endPatience = 5 * time.Second

// server is a process in a process group of its own. An interrupt from the terminal does not reach
// it: this program ends it.
type server struct {
	*process.Process
	output string // file of what it prints; "" for a worker
}

// prepare puts a command in a process group of its own.
func prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = time.Second
}

// launch starts a server. What it prints goes to a file in dir, which exists.
func launch(cmd *exec.Cmd, dir string) (*server, error) {
	prepare(cmd)
	out, err := os.CreateTemp(dir, filepath.Base(cmd.Path)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.Dir == "" {
		cmd.Dir = dir
	}
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &server{p, out.Name()}, nil
}

// kill ends the server and all processes of its group at once. Again is harmless.
func (s *server) kill() {
	_ = syscall.Kill(-s.PID(), syscall.SIGKILL) // an error is that none is left
	s.Kill()
}

// end ends the server by a signal, or by kill if it takes too long. Again is harmless.
func (s *server) end(sig os.Signal) {
	if s.Signal(sig) == nil {
		select {
		case <-s.Done():
		case <-time.After(endPatience):
		}
	}
	s.kill()
}

// printed is the end of what the server has printed.
func (s *server) printed() string {
	const end = 1500
	if s.output == "" {
		return ""
	}
	text, err := os.ReadFile(s.output)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-end):])
}

// run runs a command to its end. A cancelled ctx kills the command and its children.
func run(ctx context.Context, cmd *exec.Cmd, dir string) error {
	s, err := launch(cmd, dir)
	if err != nil {
		return err
	}
	select {
	case <-s.Done():
	case <-ctx.Done():
		s.kill()
		return ctx.Err()
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, s.printed())
	}
	return nil
}

// await asks until the answer is nil. It fails when ctx ends, or as soon as one of the servers has
// ended.
func await(ctx context.Context, servers []*server, ask func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(attempt)
		cancel()
		if err == nil {
			return nil
		}
		for _, s := range servers {
			select {
			case <-s.Done():
				return fmt.Errorf("a server has ended: %w\n%s", errors.Join(s.Err(), err), s.printed())
			default:
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// port is that of an address.
func port(addr string) string {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return p
}
