//go:build unix

// Package servers starts real database servers for tests and examples: Postgres, MariaDB and Redis
// as installed on this machine, on a free port of the loopback interface, with their data in a
// temporary directory. They are killed and started again like any other process, and none outlives
// its starter.
//
// They are set for tests: data survives the death of the server's process, not that of the machine.
//
// Postgres and MariaDB are asked through database/sql: their starter imports the driver, "pgx" or
// "mysql", since the main module requires none.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
)

// ErrNotInstalled is in the error of a server whose program is not on this machine.
var ErrNotInstalled = errors.New("not installed")

// startTime is how long a server may take until it answers.
const startTime = 60 * time.Second

// Server is one server process and its directory. Its methods are not for concurrent use.
type Server struct {
	name    string
	dir     string
	port    int
	as      *syscall.Credential // nil: as this process
	command func() []string     // for the port
	ping    func(context.Context) error
	goodbye os.Signal // ends it at once and in order

	process *exec.Cmd
	exited  chan struct{} // closed when process has been waited for
	guard   io.Closer     // its end kills process, also when this process dies
}

// newServer makes the directory, which belongs to the first of the users that exists if this
// process is root: servers refuse to run as root.
func newServer(name string, users ...string) (*Server, error) {
	s := &Server{name: name, goodbye: syscall.SIGTERM}
	var err error
	if s.dir, err = os.MkdirTemp("", "holdfast-"+name+"-"); err != nil {
		return nil, err
	}
	if s.as, err = RunAs(s.dir, users...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// RunAs gives a directory to the first of the users that exists, "nobody" after all of them, and
// returns whom to run as, if this process is root. Else it returns nil, and changes nothing.
func RunAs(dir string, users ...string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, candidate := range append(users, "nobody") {
		u, err := user.Lookup(candidate)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no user to run as")
}

// Find answers where a program is: in PATH, or in one of the places, which may be patterns.
func Find(name string, places ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, place := range places {
		if found, err := filepath.Glob(filepath.Join(place, name)); err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is %w", name, ErrNotInstalled)
}

// Addr is the server's host and port, the same for all its life.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// first starts the server on a free port, or on another if somebody takes that one before it does.
func (s *Server) first(ctx context.Context) error {
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(ctx); err == nil {
			return nil
		}
	}
	return errors.Join(err, s.Close())
}

// freePort is below the ports that systems give to clients, so that none of those takes it
// meanwhile.
func freePort() (int, error) {
	var l net.Listener
	err := errors.New("no free port")
	for range 50 {
		port := 20000 + rand.IntN(12000)
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// Start starts the server on its directory and returns when it answers. A server that ends at once
// is started again for a while: parts of its killed predecessor may still be about.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var err error
	for range 20 {
		if err = s.launch(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err = s.answers(ctx); err == nil {
			return nil
		}
		s.Kill()
		if ctx.Err() != nil {
			break
		}
		_ = loop.Sleep(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("%s does not start: %w\n%s", s.name, err, s.log())
}

// settle ends the server's first life in good order and starts its second. What a server makes of
// an empty directory is complete on the disk only after an orderly end: one that is killed before
// need not start again.
func (s *Server) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if !s.stop(limited) {
		return fmt.Errorf("%s does not end in good order\n%s", s.name, s.log())
	}
	return s.Start(ctx)
}

// launch starts the process, and a small one beside it that kills it when its input ends.
func (s *Server) launch() error {
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	args := s.command()
	s.process = exec.Command(args[0], args[1:]...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.dir, out, out
	s.process.Env = append(os.Environ(), "LC_ALL=C")
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	s.exited = make(chan struct{})
	process, exited := s.process, s.exited
	go func() {
		_ = process.Wait() // how it ended does not matter: it was killed, or its log says why
		close(exited)
	}()
	guard := exec.Command("sh", "-c", `read x; [ -n "$x" ] || { kill -9 "$0"; rm -rf "$1" || { sleep 1; rm -rf "$1"; }; }`,
		strconv.Itoa(s.process.Process.Pid), s.dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the terminal is for the starter
	stdin, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		s.Kill()
		return err
	}
	s.guard = watcher{stdin, guard}
	return nil
}

// watcher is the small process; Close sends it away.
type watcher struct {
	stdin io.WriteCloser
	cmd   *exec.Cmd
}

func (w watcher) Close() error {
	_, err := io.WriteString(w.stdin, "done\n")
	return errors.Join(err, w.stdin.Close(), w.cmd.Wait())
}

func (s *Server) answers(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := s.ping(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("it has ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		default:
			_ = loop.Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// log is the end of what the server has said.
func (s *Server) log() []byte {
	const end = 2000
	data, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return []byte(err.Error())
	}
	return data[max(0, len(data)-end):]
}

// Kill ends the server with SIGKILL and returns when it is gone. Start brings it back.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // an error says that it has ended already
	<-s.exited
	if s.guard != nil {
		_ = s.guard.Close() // it has nothing left to kill
	}
	s.process, s.guard = nil, nil
}

// stop ends the server in good order, and reports false if it had to be killed.
func (s *Server) stop(ctx context.Context) bool {
	if s.process == nil {
		return true
	}
	orderly := false
	if s.process.Process.Signal(s.goodbye) == nil {
		select {
		case <-s.exited:
			orderly = s.process.ProcessState.Success()
		case <-ctx.Done():
		}
	}
	s.Kill()
	return orderly
}

// Close ends the server, politely at first, and removes its directory.
func (s *Server) Close() error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.stop(ctx)
	var err error
	for range 50 { // parts of a killed Postgres may still write
		if err = os.RemoveAll(s.dir); err == nil {
			return nil
		}
		_ = loop.Sleep(context.Background(), 20*time.Millisecond)
	}
	return err
}
