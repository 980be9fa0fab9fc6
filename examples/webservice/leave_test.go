package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

var errStuck = errors.New("the port does not close")

// stuck is a listener that fails to close, so that Shutdown of its server fails.
type stuck struct{ net.Listener }

func (s stuck) Close() error { return errors.Join(s.Listener.Close(), errStuck) }

// toldToLeave is a process with a directory that is ready, and told to leave.
func toldToLeave(t *testing.T) (config, *service) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := config{holdfast: holdfast.Config{DataDir: filepath.Join(t.TempDir(), "node"), Logger: log}}
	cluster, err := holdfast.Open(t.Context(), cfg.holdfast)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	if err := cluster.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cfg.meanToLeave(); err != nil {
		t.Fatal(err)
	}
	return cfg, &service{cluster: cluster, log: log}
}

// A request that did not end in time made Shutdown fail, and the file stayed: the next process on
// the directory would have left as well.
func TestAProcessThatHasLeftDoesNotLeaveAgainThoughItsServerFailedToShutDown(t *testing.T) {
	t.Parallel()
	cfg, s := toldToLeave(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{}
	served := make(chan error, 1)
	accepting := make(chan struct{})
	go func() {
		served <- server.Serve(&announced{stuck{listener}, sync.OnceFunc(func() { close(accepting) })})
	}()
	<-accepting // a server that does not serve yet has nothing to close
	if err := s.stop(server, new(sync.WaitGroup), cfg); !errors.Is(err, errStuck) {
		t.Errorf("the server shut down: %v", err)
	}
	if _, err := os.Stat(cfg.leaveFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the process would leave again: %v", err)
	}
	<-served
}

// announced is a listener that says when its server accepts connections.
type announced struct {
	net.Listener
	tell func()
}

func (a *announced) Accept() (net.Conn, error) {
	a.tell()
	return a.Listener.Accept()
}

// A process that was told to leave and could not, and a later one on its directory, which was to stay:
// that one would have left at the next roll.
func TestAProcessThatFailedToLeaveDoesNotMakeTheNextOneLeave(t *testing.T) {
	t.Parallel()
	cfg, s := toldToLeave(t)
	if err := s.cluster.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(new(http.Server), new(sync.WaitGroup), cfg); err != nil {
		t.Error(err)
	}
	if cfg.leaves() {
		t.Error("the next process on the directory would leave")
	}
}

// Without a data directory the file was "..leave", in whatever directory the command ran in.
func TestWithoutADataDirectoryNoFileSaysThatAProcessLeaves(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := (config{}).meanToLeave(); err == nil {
		t.Error("the command says that it has done something")
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("the working directory has %v, %v", files, err)
	}
}
