package processes_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/transport"
)

// home makes a data directory of a node that has its group, and returns it with the identity in it.
func home(t *testing.T) (dir, identity string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "node")
	c := testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = dir })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "identity.json")
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rewrite(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedOpenLeavesNothingBehind(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	dir, identity := home(t)
	spoil := func(change func([]byte) []byte) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) {
			cfg.DataDir = dir
			rewrite(t, identity, change(read(t, identity)))
		}
	}
	other := testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = filepath.Join(t.TempDir(), "other") })
	otherDir := filepath.Join(t.TempDir(), "held")
	holder := testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = otherDir })
	cases := map[string]struct {
		change func(*holdfast.Config)
		want   error
	}{
		"the port is in use": {func(cfg *holdfast.Config) { cfg.Bind, cfg.DataDir = other.Addr(), dir }, syscall.EADDRINUSE},
		"the address is not ours": {func(cfg *holdfast.Config) {
			cfg.Bind, cfg.Bootstrap, cfg.Insecure, cfg.DataDir = "203.0.113.1:0", 1, true, dir
		}, syscall.EADDRNOTAVAIL},
		"the directory is in use": {func(cfg *holdfast.Config) { cfg.DataDir = otherDir }, holdfast.ErrDirInUse},
		"the directory is a file": {func(cfg *holdfast.Config) { cfg.DataDir = identity }, nil},
		"the identity is empty":   {spoil(func([]byte) []byte { return nil }), nil},
		"the identity is damaged": {spoil(func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"incarnation": `), []byte(`"incarnation": 7`), 1)
		}), nil},
		"the identity is no JSON":     {spoil(func([]byte) []byte { return []byte("\x00\x01") }), nil},
		"the identity is of tomorrow": {spoil(func([]byte) []byte { return []byte(`{"format": 1000}`) }), holdfast.ErrIncompatible},
		"the cluster is another":      {func(cfg *holdfast.Config) { cfg.DataDir, cfg.Cluster = dir, "other" }, holdfast.ErrIncompatible},
		"the TLS trusts nobody": {func(cfg *holdfast.Config) {
			cfg.DataDir, cfg.TLS = dir, &tls.Config{Certificates: []tls.Certificate{{}}}
		}, holdfast.ErrInvalid},
		"the advertised port is none": {func(cfg *holdfast.Config) { cfg.DataDir, cfg.Advertise = dir, "127.0.0.1:none" }, holdfast.ErrInvalid},
		"the advertised host is none": {func(cfg *holdfast.Config) { cfg.DataDir, cfg.Advertise = dir, "no such host:1" }, holdfast.ErrInvalid},
		"the advertised host is unknown": {func(cfg *holdfast.Config) {
			cfg.DataDir, cfg.Advertise, cfg.Bootstrap = dir, "nowhere.invalid:1", 1
		}, nil},
	}
	for name, tc := range cases {
		whole := read(t, identity)
		leavesNothing(t, name, func() {
			var cfg holdfast.Config
			tc.change(&cfg)
			c, err := holdfast.Open(t.Context(), cfg)
			if err == nil {
				t.Errorf("%s: it opened", name)
				c.Close()
			} else if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		})
		rewrite(t, identity, whole)
		// Neither the directory nor the port stays locked.
		c, err := holdfast.Open(t.Context(), holdfast.Config{DataDir: dir, Logger: testkit.Quiet()})
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		c.Close()
	}
	testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = dir }).Close()
	for _, c := range []*holdfast.Cluster{other, holder} {
		if err := c.Ready(testkit.Within(t, 10*time.Second)); err != nil {
			t.Errorf("a failed Open disturbed another node: %v", err)
		}
		c.Close()
	}
}

// fuse is a context that ends itself at the n-th look at it.
type fuse struct {
	context.Context
	looks atomic.Int64
	end   context.CancelFunc
	at    int64
}

func newFuse(ctx context.Context, at int64) *fuse {
	ctx, end := context.WithCancel(ctx)
	return &fuse{Context: ctx, end: end, at: at}
}

func (f *fuse) look() {
	if f.looks.Add(1) == f.at {
		f.end()
	}
}

func (f *fuse) Done() <-chan struct{} { f.look(); return f.Context.Done() }
func (f *fuse) Err() error            { f.look(); return f.Context.Err() }

func TestAnOpenThatIsCancelledAtAnyStepLeavesNothingBehind(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	dir, _ := home(t)
	probe := testkit.Single(t)
	port := probe.Addr()
	probe.Close()
	for name, cfg := range map[string]holdfast.Config{
		"fresh":      {Bind: port, Secrets: []string{"s"}},
		"waiting":    {Bind: port, Join: []string{"127.0.0.1:1"}},
		"restarting": {Bind: port, DataDir: dir},
	} {
		failed, opened := 0, false
		for at := int64(1); !opened; at++ {
			ctx := newFuse(t.Context(), at)
			leavesNothing(t, name, func() {
				c, err := holdfast.Open(ctx, cfg)
				switch {
				case err == nil:
					// The end of the context after Open does not close the node.
					ctx.end()
					opened = ctx.looks.Load() < at
					c.Close()
				case !errors.Is(err, context.Canceled):
					t.Errorf("%s, cancelled at look %d: %v", name, at, err)
				default:
					failed++
				}
			})
			ctx.end()
		}
		if failed < 4 {
			t.Errorf("%s: Open noticed its cancellation at %d steps only", name, failed)
		}
	}
	leavesNothing(t, "after all", func() {
		c := testkit.Single(t, func(cfg *holdfast.Config) { cfg.Bind, cfg.DataDir = port, dir })
		testkit.Release(t, testkit.Acquire(t, c, "works"))
		c.Close()
	})
}

// shaky is a network on which the n-th call ends the caller's context, and fails if it can.
type shaky struct {
	transport.Network
	calls atomic.Int64
	at    int64
	end   func()
}

var errShaky = errors.New("the network is shaky")

func (s *shaky) call() error {
	if s.calls.Add(1) == s.at {
		s.end()
		return errShaky
	}
	return nil
}

func (s *shaky) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	e, err := s.Network.Listen(ctx, bind, opts)
	return &shakyEndpoint{e, s}, err
}

type shakyEndpoint struct {
	transport.Endpoint
	s *shaky
}

func (e *shakyEndpoint) Addr() string {
	if e.s.call() != nil {
		return "nowhere"
	}
	return e.Endpoint.Addr()
}

func (e *shakyEndpoint) Dial(ctx context.Context, addr string, kind transport.Kind) (net.Conn, error) {
	if err := e.s.call(); err != nil {
		return nil, err
	}
	return e.Endpoint.Dial(ctx, addr, kind)
}

func (e *shakyEndpoint) Handle(kind transport.Kind, handle func(net.Conn)) (stop func()) {
	_ = e.s.call()
	return e.Endpoint.Handle(kind, handle)
}

func (e *shakyEndpoint) WritePacket(b []byte, addr string) error {
	if err := e.s.call(); err != nil {
		return err
	}
	return e.Endpoint.WritePacket(b, addr)
}

func (e *shakyEndpoint) Receive(handle func(transport.Packet)) (stop func()) {
	_ = e.s.call()
	return e.Endpoint.Receive(handle)
}

func TestAnOpenWhoseNetworkFailsAtAnyCallLeavesNothingBehind(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	dir, _ := home(t)
	failed := 0
	for at := int64(1); at <= 12; at++ {
		leavesNothing(t, "shaky network", func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &shaky{Network: transport.TCP(), at: at, end: cancel}
			c, err := holdfast.Open(simenv.With(ctx, simenv.Env{Network: s}), holdfast.Config{DataDir: dir})
			if err != nil {
				failed++
				return
			}
			if err := c.Ready(testkit.Within(t, 10*time.Second)); err != nil {
				t.Errorf("call %d: %v", at, err)
			}
			c.Close()
		})
	}
	if failed < 3 {
		t.Errorf("Open failed at %d calls only", failed)
	}
	if _, err := os.Stat(filepath.Join(dir, "identity.json")); errors.Is(err, fs.ErrNotExist) {
		t.Error("the identity is gone")
	}
}
