package contract_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestABadConfigIsRefusedWithTheNameOfItsField(t *testing.T) {
	t.Parallel()
	cases := []struct {
		field string
		cfg   holdfast.Config
	}{
		{"Config.Cluster", holdfast.Config{Cluster: strings.Repeat("x", 65)}},
		{"Config.Cluster", holdfast.Config{Cluster: "a\nb"}},
		{"Config.Name", holdfast.Config{Name: strings.Repeat("n", 129)}},
		{"Config.Name", holdfast.Config{Name: "\xff"}},
		{"Config.Zone", holdfast.Config{Zone: strings.Repeat("z", 129)}},
		{"Config.DataDir", holdfast.Config{DataDir: "a\x00b"}},
		{"Config.Bind", holdfast.Config{Bind: "nonsense"}},
		{"Config.Bind", holdfast.Config{Bind: "0.0.0.0:0"}},
		{"Config.Bind", holdfast.Config{Bind: ":0"}},
		{"Config.Bind", holdfast.Config{Bind: "{{ nonsense }}:1"}},
		{"Config.Bind", holdfast.Config{Bind: "127.0.0.1:65536"}},
		{"Config.Advertise", holdfast.Config{Advertise: "nowhere"}},
		{"Config.Advertise", holdfast.Config{Advertise: ":1"}},
		{"Config.Advertise", holdfast.Config{Advertise: "127.0.0.1:http"}},
		{"Config.Advertise", holdfast.Config{Advertise: "127.0.0.1:-1"}},
		{"Config.Advertise", holdfast.Config{Advertise: "0.0.0.0:1"}},
		{"Config.Advertise", holdfast.Config{Advertise: "dns+localhost:1"}},
		{"Config.Join", holdfast.Config{Join: []string{""}}},
		{"Config.Join", holdfast.Config{Join: []string{"host:notaport"}}},
		{"Config.Join", holdfast.Config{Join: []string{"dns+"}}},
		{"Config.Join", holdfast.Config{Join: []string{"file+"}}},
		{"Config.Bootstrap", holdfast.Config{Bootstrap: -2}},
		{"Config.Bootstrap", holdfast.Config{Bootstrap: math.MaxInt, Join: []string{"127.0.0.1:1"}}},
		{"Config.Voters", holdfast.Config{Voters: 2}},
		{"Config.Voters", holdfast.Config{Voters: -1}},
		{"Config.Voters", holdfast.Config{Voters: 9}},
		{"Config.Secrets", holdfast.Config{Secrets: []string{"a", ""}}},
		{"Config.Secrets", holdfast.Config{Secrets: make([]string, 100)}},
		{"Config.Secrets", holdfast.Config{Secrets: []string{"0123456789abcdef\n"}}},
		{"Config.Secrets", holdfast.Config{Secrets: []string{"0123456789abcdef", " and another one"}}},
		{"Config.TLS", holdfast.Config{TLS: &tls.Config{}}},
		{"Config.TLS", holdfast.Config{TLS: &tls.Config{Certificates: make([]tls.Certificate, 1)}}},
		{"Config.TLS", holdfast.Config{TLS: &tls.Config{
			Certificates: make([]tls.Certificate, 1), ClientCAs: x509.NewCertPool(), InsecureSkipVerify: true,
		}}},
		{"Config.TTL", holdfast.Config{TTL: time.Millisecond}},
		{"Config.TTL", holdfast.Config{TTL: -time.Second}},
		{"Config.TTL", holdfast.Config{TTL: 6 * time.Minute}}, // above the default of MaxTTL
		{"Config.MaxTTL", holdfast.Config{MaxTTL: time.Millisecond}},
		{"Config.MaxTTL", holdfast.Config{MaxTTL: 25 * time.Hour}},
		{"Config.TTL", holdfast.Config{TTL: math.MaxInt64}},
		{"Config.MaxClockDrift", holdfast.Config{MaxClockDrift: 0.5}},
		{"Config.MaxClockDrift", holdfast.Config{MaxClockDrift: -0.1}},
		{"Config.MaxClockDrift", holdfast.Config{MaxClockDrift: math.NaN()}},
		{"Config.Timing.Tick", holdfast.Config{Timing: holdfast.Timing{Tick: 1}}},
		{"Config.Timing.Tick", holdfast.Config{Timing: holdfast.Timing{Tick: 1500 * time.Microsecond}}},
		{"Config.Timing.Heartbeat", holdfast.Config{Timing: holdfast.Timing{Heartbeat: time.Millisecond}}},
		{"Config.Timing.Election", holdfast.Config{Timing: holdfast.Timing{Election: 10 * time.Millisecond}}},
	}
	for _, tc := range cases {
		refusedFor(t, tc.field, tc.cfg)
	}
	//lint:ignore SA1012 a nil context must not panic
	_, err := holdfast.Open(nil, holdfast.Config{})
	wantField(t, err, "context")
}

func refusedFor(t *testing.T, field string, cfg holdfast.Config) {
	t.Helper()
	c, err := holdfast.Open(t.Context(), cfg)
	if err == nil {
		c.Close()
	}
	wantField(t, err, field)
}

func TestReplicasAndReplaceAfterBeyondTheirEdgesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		cfg   holdfast.Config
	}{
		{"Config.Replicas", holdfast.Config{Replicas: -1}},
		{"Config.Replicas", holdfast.Config{Replicas: 3}},
		{"Config.Replicas", holdfast.Config{Voters: 5, Replicas: 5}},
		{"Config.Replicas", holdfast.Config{Replicas: 1001}},
		{"Config.ReplaceAfter", holdfast.Config{ReplaceAfter: -1}},
		{"Config.ReplaceAfter", holdfast.Config{ReplaceAfter: 1999 * time.Millisecond}},
		{"Config.ReplaceAfter", holdfast.Config{ReplaceAfter: 24*time.Hour + 1}},
		{"Config.ReplaceAfter", holdfast.Config{ReplaceAfter: 9 * time.Second, Timing: holdfast.Timing{Heartbeat: time.Second}}},
	} {
		refusedFor(t, tc.field, tc.cfg)
	}
}

// One second was named as the shortest, and refused.
func TestTheShortestReplaceAfterIsTakenAndNamed(t *testing.T) {
	t.Parallel()
	for shortest, timing := range map[time.Duration]holdfast.Timing{
		2 * time.Second:  {},
		10 * time.Second: {Heartbeat: time.Second},
	} {
		for _, d := range []time.Duration{shortest, 24 * time.Hour} {
			c, err := holdfast.Open(t.Context(), holdfast.Config{ReplaceAfter: d, Timing: timing})
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		_, err := holdfast.Open(t.Context(), holdfast.Config{ReplaceAfter: time.Second, Timing: timing})
		if want := fmt.Sprintf("1s is not %v (", shortest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v is the shortest: %v", shortest, err)
		}
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var f *holdfast.FieldError
	if !errors.As(err, &f) || !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("%s: got %v, want ErrInvalid", field, err)
	} else if f.Field != field {
		t.Errorf("got the field %q (%v), want %q", f.Field, err, field)
	}
}

func TestBadArgumentsAreRefusedWithTheirName(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 30*time.Second)
	options := []struct {
		field string
		opts  []holdfast.Option
	}{
		{"option 0", []holdfast.Option{nil}},
		{"WithTTL", []holdfast.Option{holdfast.WithTTL(0)}},
		{"WithTTL", []holdfast.Option{holdfast.WithTTL(99 * time.Millisecond)}},
		{"WithTTL", []holdfast.Option{holdfast.WithTTL(25 * time.Hour)}},
		{"WithMaxHold", []holdfast.Option{holdfast.WithMaxHold(0)}},
		{"WithMaxHold", []holdfast.Option{holdfast.WithMaxHold(-1)}},
		{"WithLabel", []holdfast.Option{holdfast.WithLabel(strings.Repeat("l", 1025))}},
		{"WithLabel", []holdfast.Option{holdfast.WithLabel("a\x00")}},
		{"WithValue", []holdfast.Option{holdfast.WithValue(make([]byte, 64<<10+1))}},
		{"WithLimit", []holdfast.Option{holdfast.WithLimit(0)}},
		{"WithLimit", []holdfast.Option{holdfast.WithLimit(-1)}},
		{"WithLimit", []holdfast.Option{holdfast.WithLimit(math.MaxInt)}},
		{"WithWeight", []holdfast.Option{holdfast.WithWeight(0)}},
		{"WithWeight", []holdfast.Option{holdfast.WithWeight(1)}},
		{"WithWeight", []holdfast.Option{holdfast.WithLimit(2), holdfast.WithWeight(3)}},
		{"WithShared", []holdfast.Option{holdfast.WithLimit(2), holdfast.WithShared()}},
		{"WithPriority", []holdfast.Option{holdfast.WithPriority(math.MaxInt)}},
	}
	for _, tc := range options {
		_, err := c.Acquire(ctx, "name", tc.opts...)
		wantField(t, err, tc.field)
	}
	for _, name := range []string{"", strings.Repeat("n", 513), "a\x00b", "a\nb", "\xff"} {
		_, err := c.Acquire(ctx, name)
		wantField(t, err, "name")
		_, err = c.TryAcquire(ctx, name)
		wantField(t, err, "name")
		wantField(t, c.Do(ctx, name, func(context.Context, *holdfast.Lease) error { return nil }), "name")
		wantField(t, c.Verify(ctx, name, 1), "name")
		_, err = c.Inspect(ctx, name)
		wantField(t, err, "name")
		wantField(t, c.ForceRelease(ctx, name, 1, "why"), "name")
	}
	wantField(t, c.ForceRelease(ctx, "name", 1, ""), "reason")
	wantField(t, c.Do(ctx, "name", nil), "fn")
	_, err := holdfast.CheckBackup(nil)
	wantField(t, err, "r")
	for _, err := range c.Locks(ctx, strings.Repeat("p", 513)) {
		wantField(t, err, "prefix")
	}
}

func TestANilContextIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "held")
	var none context.Context
	calls := map[string]func() error{
		"Ready":        func() error { return c.Ready(none) },
		"Acquire":      func() error { _, err := c.Acquire(none, "n"); return err },
		"TryAcquire":   func() error { _, err := c.TryAcquire(none, "n"); return err },
		"Do":           func() error { return c.Do(none, "n", func(context.Context, *holdfast.Lease) error { return nil }) },
		"Verify":       func() error { return c.Verify(none, "n", 1) },
		"Inspect":      func() error { _, err := c.Inspect(none, "n"); return err },
		"ForceRelease": func() error { return c.ForceRelease(none, "n", 1, "why") },
		"Locks": func() error {
			for _, err := range c.Locks(none, "") {
				return err
			}
			return nil
		},
		"Renew":      func() error { return l.Renew(none) },
		"Set":        func() error { return l.Set(none, nil) },
		"Release":    func() error { return l.Release(none) },
		"Leave":      func() error { return c.Leave(none) },
		"RemoveNode": func() error { return c.RemoveNode(none, c.ID(), "why") },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s(nil): got %v, want ErrInvalid", name, err)
		}
	}
	if !l.Valid() {
		t.Error("a refused call ended the lease")
	}
}

func TestTheLongestNameTheLargestValueAndEveryOptionAreAccepted(t *testing.T) {
	t.Parallel()
	c := single(t)
	name := strings.Repeat("é", 256)
	value := make([]byte, 64<<10)
	value[len(value)-1] = 7
	l := acquire(t, c, name, holdfast.WithValue(value), holdfast.WithLabel(strings.Repeat("l", 1024)),
		holdfast.WithTTL(24*time.Hour), holdfast.WithPriority(math.MinInt32), holdfast.WithMaxHold(math.MaxInt64))
	info, err := c.Inspect(within(t, 5*time.Second), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Holders) != 1 || info.Holders[0].Token != l.Token() || string(info.Value) != string(value) {
		t.Errorf("the lock does not hold what was given: %d holders, %d bytes", len(info.Holders), len(info.Value))
	}
	release(t, l)
}
