package contract_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// lose takes a lock and has it taken away.
func lose(t *testing.T, c *holdfast.Cluster, name string) {
	t.Helper()
	l := acquire(t, c, name)
	if err := c.ForceRelease(within(t, 10*time.Second), name, l.Token(), "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told")
	}
}

func TestAHookThatPanicsIsCalledAgainForTheNextEvent(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	c := single(t, func(cfg *holdfast.Config) {
		cfg.Logger = quiet()
		cfg.Events = holdfast.Events{
			LeaseLost:  func(name string, _ holdfast.Token, _ error) { told <- name; panic("user's") },
			RaftLeader: func(string) { panic("user's") },
		}
	})
	for _, name := range []string{"first", "second"} {
		lose(t, c, name)
		if got := <-told; got != name {
			t.Errorf("told of %s, want %s", got, name)
		}
	}
	serves(t, within(t, 10*time.Second), c)
}

// upset is a handler of log lines that panics.
type upset struct{ lines *atomic.Int64 }

func (h upset) Enabled(context.Context, slog.Level) bool  { return true }
func (h upset) Handle(context.Context, slog.Record) error { h.lines.Add(1); panic("user's") }
func (h upset) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h upset) WithGroup(string) slog.Handler             { panic("user's") }

func TestALogHandlerThatPanicsCostsItsLineAlone(t *testing.T) {
	t.Parallel()
	var lines atomic.Int64
	c := single(t, func(cfg *holdfast.Config) { cfg.Logger = slog.New(upset{&lines}) })
	serves(t, within(t, 10*time.Second), c)
	if lines.Load() == 0 {
		t.Error("the handler was not called")
	}
}

func TestAFunctionOfTLSThatPanicsCostsItsConnectionAlone(t *testing.T) {
	t.Parallel()
	good := authority(t)
	bad := good.Clone()
	var calls atomic.Int64
	bad.VerifyConnection = func(tls.ConnectionState) error { calls.Add(1); panic("user's") }
	with := func(c *tls.Config, join ...string) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.TLS, cfg.Join, cfg.Logger, cfg.Bootstrap = c, join, quiet(), 1 }
	}
	victim, healthy := single(t, with(bad)), single(t, with(good))
	called := func(config *tls.Config, by string) { // accepting, and dialing
		c, err := holdfast.Open(t.Context(), holdfast.Config{TLS: config, Join: []string{by}, Bootstrap: -1, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		before := calls.Load()
		polled(t, "meet the function", func() bool { return calls.Load() > before })
	}
	called(good, victim.Addr())
	called(bad, healthy.Addr())
	serves(t, within(t, 10*time.Second), victim)
	serves(t, within(t, 10*time.Second), healthy)
}

func TestATokenFloorThatPanicsIsAskedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := single(t, func(cfg *holdfast.Config) {
		cfg.Logger = quiet()
		cfg.TokenFloor = func(context.Context) (holdfast.Token, error) {
			if calls.Add(1) == 1 {
				panic("user's")
			}
			return 1 << 51, nil
		}
	})
	if l := acquire(t, c, "lock"); l.Token() <= 1<<51 {
		t.Errorf("token %d is not above the floor", l.Token())
	}
}
