package transport

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestPartitionIsolateAndHealCutWhatTheyName(t *testing.T) {
	t.Parallel()
	a, b, c := placeOf("10.0.0.1", 1), placeOf("10.0.0.2", 1), placeOf("10.0.0.3", 1)
	sibling := placeOf("10.0.0.1", 2)
	all := []place{a, b, c, sibling}
	cuts := func(m *Memory) (n int) {
		for _, from := range all {
			for _, to := range all {
				if m.rules.Load().of(from, to, KindRaft).Cut {
					n++
				}
			}
		}
		return n
	}
	for name, test := range map[string]struct {
		do   func(*Memory)
		want int
	}{
		"nothing":               {func(*Memory) {}, 0},
		"Cut is one-way":        {func(m *Memory) { m.Cut(a.addr, b.addr) }, 1},
		"Cut of hosts":          {func(m *Memory) { m.Cut(a.host, b.host) }, 2},
		"Isolate an address":    {func(m *Memory) { m.Isolate(a.addr) }, 6},
		"Isolate a host":        {func(m *Memory) { m.Isolate(a.host) }, 8},
		"Cut all":               {func(m *Memory) { m.Cut("*", "*") }, 12},
		"Partition in two":      {func(m *Memory) { m.Partition([]string{a.host}, []string{b.host, c.host}) }, 8},
		"Partition in three":    {func(m *Memory) { m.Partition([]string{a.host}, []string{b.host}, []string{c.host}) }, 10},
		"Heal":                  {func(m *Memory) { m.Isolate(a.host); m.Cut(b.addr, c.addr); m.Heal() }, 0},
		"Heal one":              {func(m *Memory) { m.Isolate(a.host); m.Cut(b.addr, c.addr); m.Heal(a.host) }, 1},
		"Calm":                  {func(m *Memory) { m.Isolate(a.host); m.Calm() }, 0},
		"faults leave the cut":  {func(m *Memory) { m.Cut("*", b.addr); m.SetFaults(a.addr, b.addr, Faults{Drop: 1}) }, 3},
		"zero faults end a cut": {func(m *Memory) { m.Cut(a.addr, b.addr); m.SetFaults(a.addr, b.addr, Faults{}) }, 0},
	} {
		m := NewMemory(1)
		test.do(m)
		if got := cuts(m); got != test.want {
			t.Errorf("%s: %d directions are cut, want %d", name, got, test.want)
		}
	}
}

func TestHealLeavesOtherFaultsAndExactNamesCountMost(t *testing.T) {
	t.Parallel()
	m := NewMemory(1)
	a, b := placeOf("10.0.0.1", 1), placeOf("10.0.0.2", 1)
	m.SetFaults("*", "*", Faults{Delay: 1})
	m.SetFaults(a.host, "*", Faults{Delay: 2})
	m.SetFaults(a.host, b.host, Faults{Delay: 3, Cut: true})
	if f := m.rules.Load().of(a, b, KindRaft); f != (Faults{Delay: 3, Cut: true}) {
		t.Errorf("between hosts: %+v", f)
	}
	m.SetFaults(a.addr, b.host, Faults{Delay: 4})
	m.Heal()
	if f := m.rules.Load().of(a, b, KindRaft); f != (Faults{Delay: 4}) {
		t.Errorf("from an address: %+v", f)
	}
	if f := m.rules.Load().of(b, a, KindRaft); f != (Faults{Delay: 1}) {
		t.Errorf("back: %+v", f)
	}
}

func TestMemoryGivesPortsPerHostAndDoesNotReuseThemAtOnce(t *testing.T) {
	t.Parallel()
	m := NewMemory(1)
	first := listenAt(t, m, "10.0.0.7:0", Options{})
	first.Close()
	second := listenAt(t, m, "10.0.0.7:0", Options{})
	other := listenAt(t, m, "10.0.0.8:0", Options{})
	anywhere := listenAt(t, m, "0.0.0.0:0", Options{})
	v6 := listenAt(t, m, "[fd00::1]:7643", Options{})
	for got, want := range map[string]string{
		first.Addr(): "10.0.0.7:20000", second.Addr(): "10.0.0.7:20001", other.Addr(): "10.0.0.8:20000",
		anywhere.Addr(): "127.0.0.1:20000", v6.Addr(): "[fd00::1]:7643",
	} {
		if got != want {
			t.Errorf("bound %s, want %s", got, want)
		}
	}
	if _, err := m.Listen(t.Context(), second.Addr(), Options{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second endpoint on one address: %v", err)
	}
	if _, err := other.Dial(t.Context(), first.Addr(), KindRaft); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial of a closed endpoint: %v", err)
	}
	echo(v6, KindRaft)
	wantEcho(t, second, v6, KindRaft)
}

func TestMemoryRefusesDialsOfADirectionAlsoBehindACut(t *testing.T) {
	t.Parallel()
	m := NewMemory(1)
	a, b := listenAt(t, m, "10.0.0.7:0", Options{}), listenAt(t, m, "10.0.0.8:0", Options{})
	echo(a, KindRaft)
	echo(b, KindRaft)
	m.SetFaults(a.Addr(), b.Addr(), Faults{Refuse: true, Cut: true})
	if _, err := a.Dial(t.Context(), b.Addr(), KindRaft); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial that is refused: %v", err)
	}
	m.Heal()
	wantEcho(t, b, a, KindRaft)
	m.Calm()
	wantEcho(t, a, b, KindRaft)
}

func TestClosedEndpointsLeaveNothingInTheMemoryNetwork(t *testing.T) {
	t.Parallel()
	m := NewMemory(1)
	a, b := listen(t, m, Options{}), listen(t, m, Options{})
	m.SetFaults("*", "*", Faults{Delay: time.Hour})
	for range 10 {
		a.WritePacket([]byte("late for ever"), b.Addr())
	}
	m.Calm()
	for range 10 {
		connect(t, a, b, KindRaft)
		stranger(t, a, b).Close() // its end belongs to no endpoint
	}
	a.Close()
	b.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wires)+len(m.streams) != 0 {
		t.Errorf("%d endpoints and %d streams are left", len(m.wires), len(m.streams))
	}
}

func TestLargePacketsAndWritesAreLost(t *testing.T) {
	t.Parallel()
	f := Faults{Large: 600}
	if f.loses(600) || !f.loses(601) || (Faults{}).loses(1<<20) {
		t.Error("not what is larger, and only that, is lost")
	}
}

// What follows a large packet on a connection of TCP waits for it.
func TestAStreamOfAClientHoldsWhatComesAfterALargeWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(1)
		a, b := listenAt(t, m, "10.0.0.1:1", Options{}), listenAt(t, m, "10.0.0.2:1", Options{})
		defer a.Close()
		defer b.Close()
		from, to := connect(t, a, b, KindClient)
		m.SetFaults("*", "*", Faults{Large: 600})
		for _, size := range []int{1, 601, 2} {
			if _, err := from.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		_ = to.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := io.ReadFull(to, make([]byte, 2)); n != 1 || err == nil {
			t.Errorf("%d bytes came: %v", n, err)
		}
		m.SetFaults("*", "*", Faults{})
		_ = to.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := io.ReadFull(to, make([]byte, 603)); err != nil {
			t.Errorf("%d bytes came after the fault: %v", n, err)
		}
	})
}
