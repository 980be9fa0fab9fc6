package fsm

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// recovers recovers a fork of a machine: what a recovered group must have and not have, whatever its
// state was.
func recovers(t interface {
	Helper()
	Fatalf(string, ...any)
}, m *Machine) {
	t.Helper()
	f, before := m.Fork(), snapshot(m)
	was, floor := m.Info(), min(m.counter+1000, m.limits.token)
	err := f.Recover(Recovery{Cluster: [16]byte{'n', 'e', 'w'}, Counter: floor})
	if !was.Born {
		if !errors.Is(err, ErrUnborn) {
			t.Fatalf("before its birth: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("recovering: %v", err)
	}
	i := f.Info()
	if i.Sessions+i.Grants+i.Waiters+i.Nodes != 0 || i.Serving || i.Applied != 0 || i.Commands <= was.Commands || i.Counter != floor {
		t.Fatalf("recovered as %+v from %+v", i, was)
	}
	if longest := max(was.MaxTTL, time.Millisecond); i.Wait < longest {
		t.Fatalf("it waits for %v, and leases have %v", i.Wait, was.MaxTTL)
	}
	for l := range m.Locks("") {
		if now, _ := f.Lock(l.Name); !bytes.Equal(now.Value, l.Value) {
			t.Fatalf("%s had %q and has %q", l.Name, l.Value, now.Value)
		}
	}
	if i.Keys != was.Keys {
		t.Fatalf("%d keys of %d", i.Keys, was.Keys)
	}
	again, err := readSnapshot(bytes.NewReader(snapshot(f)), f.limits)
	if err != nil || !bytes.Equal(snapshot(again), snapshot(f)) {
		t.Fatalf("its snapshot: %v", err)
	}
	if !bytes.Equal(snapshot(m), before) {
		t.Fatalf("the former state changed")
	}
}

func TestARecoveredGroupHasValuesAndKeysAndNothingOfItsFormerProcesses(t *testing.T) {
	t.Parallel()
	m := small(t)
	recovers(t, m)
	token := m.counter
	if err := m.Recover(Recovery{Cluster: [16]byte{2}, Counter: 7, AllStopped: true}); err != nil {
		t.Fatal(err)
	}
	if i := m.Info(); i.Wait != 0 || i.Counter < token || i.Bootstrap != 1 || i.Voters != 1 {
		t.Errorf("%+v", i)
	}
	if past := m.Past("exclusive"); len(past) == 0 || past[len(past)-1].Reason != ReasonExpired {
		t.Errorf("its past: %+v", past)
	}
	b := &bench{t, m}
	b.must(Hello{Node{'a'}, 1, "alpha", Place{}, 2}, CodeOK)
	c := acquire(1, "exclusive")
	b.must(c, CodeNotServing)
	b.must(Serve{}, CodeOK)
	if o := b.must(c, CodeGranted); o.Token <= token {
		t.Errorf("token %d after %d", o.Token, token)
	}
}

// A holder of a session that was opened before there was a bound relies on its TTL, too.
func TestARecoveredGroupWaitsForTheLongestLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		bound, lease, want time.Duration
	}{{0, time.Second, TTLMax}, {time.Minute, time.Second, time.Minute}, {time.Minute, time.Hour, time.Hour}} {
		b := newBench(t)
		c := acquire(1, "x")
		c.TTL = tc.lease
		b.must(c, CodeGranted)
		if tc.bound > 0 {
			b.must(RaiseTTL{tc.bound}, CodeOK)
		}
		if err := b.m.Recover(Recovery{Cluster: [16]byte{2}}); err != nil {
			t.Fatal(err)
		}
		if i := b.m.Info(); i.Wait != tc.want {
			t.Errorf("bound %v, a lease of %v: it waits for %v", tc.bound, tc.lease, i.Wait)
		}
	}
}

func TestARecoveryNeedsAnIDOfItsOwnAndATokenThatIsLeft(t *testing.T) {
	t.Parallel()
	for _, r := range []Recovery{{}, {Cluster: [16]byte{1}}, {Cluster: [16]byte{2}, Counter: TokenMax + 1}} {
		if err := newBench(t).m.Recover(r); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
