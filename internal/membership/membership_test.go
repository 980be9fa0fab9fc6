package membership

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func TestLeaveIsNotFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.crash()
		within(t, 3*time.Second, "c has left", func() bool { return a.sees("c", Left) && b.sees("c", Left) })
		time.Sleep(5 * time.Minute)
		if addr, _ := a.Address("c"); addr != "10.0.0.3:7643" || !a.sees("c", Left) {
			t.Errorf("five minutes later c is at %q", addr)
		}
		if targets, _ := a.targets(); len(targets) != 0 {
			t.Errorf("tries %v, although it left", targets)
		}
	})
}

func TestNodeThatLeftComesBackAsItsNextLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.SetMeta(c.self); !errors.Is(err, ErrClosed) {
			t.Errorf("SetMeta after Leave = %v, want ErrClosed", err)
		}
		c.crash()
		c = f.start("c", 2, "10.0.0.3:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, c)
	})
}

func TestLeaveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		_, _, c := f.trio()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Leave(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Leave = %v", err)
		}
	})
}

func TestOthersSeeANewMeta(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var changes atomic.Int32
		a := f.start("a", 1, "10.0.0.1:7643", func(c *Config) { c.OnChange = func() { changes.Add(1) } })
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b)
		synctest.Wait()
		before := changes.Load()
		want := b.self
		want.ClusterID, want.Replica, want.Voter, want.Applied, want.Level = "group", 7, true, 1<<40, 3
		start := time.Now()
		if err := b.SetMeta(want); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("SetMeta took %v, want it not to wait", took)
		}
		within(t, 2*time.Second, "a sees it", func() bool { m, _ := a.Member("b"); return m.Meta == want })
		synctest.Wait()
		if changes.Load() == before {
			t.Error("OnChange was not called")
		}
		if m, _ := b.Member("b"); m.Meta != want || !m.Local {
			t.Errorf("b sees itself as %+v", m)
		}
	})
}

func TestIdentityCannotChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a", 1, "10.0.0.1:7643", nil)
		meta := a.self
		meta.Incarnation++
		if a.SetMeta(meta) == nil {
			t.Error("SetMeta changed the incarnation")
		}
		meta = a.self
		meta.Zone = strings.Repeat("z", ZoneMax+1)
		if err := a.SetMeta(meta); err == nil || !strings.Contains(err.Error(), "Zone") {
			t.Errorf("SetMeta = %v, want an error that names Zone", err)
		}
	})
}

func TestSecondProcessWithOurIdentityIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		clone := f.start("c", 2, "10.0.0.33:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, clone)
		within(t, 30*time.Second, "c complains", func() bool { return c.log.Count("newer incarnation") > 0 })
		if m, _ := c.Member("c"); m.Incarnation != 1 {
			t.Error("c takes the clone for itself")
		}
	})
}

func TestCloseWaitsForEverything(t *testing.T) {
	t.Parallel()
	// The bubble itself fails the test when a goroutine is left after Close.
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = c.Close() })
		}
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v in a healthy fleet", took)
		}
		if n := c.log.Count("level=WARN"); n != 0 {
			t.Errorf("Close complained %d times", n)
		}
		if err := c.Send(t.Context(), "a", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Send after Close = %v", err)
		}
		if err := c.SetMeta(Meta{Node: "c", Incarnation: 1}); !errors.Is(err, ErrClosed) {
			t.Errorf("SetMeta after Close = %v", err)
		}
		if err := c.Leave(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Leave after Close = %v", err)
		}
		// While probes, dials and messages to the dead are under way.
		go func() { _ = a.Send(context.Background(), "c", []byte("x")) }()
		time.Sleep(1500 * time.Millisecond)
		start = time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 7*time.Second {
			t.Errorf("two Closes took %v beside a dead node", took)
		}
	})
}

func TestNodeWithoutUDPStaysAMemberAndSaysSoOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		endpoint, err := f.network.Listen(t.Context(), "10.0.0.2:7643", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, deaf{endpoint}, f.names, "b", 1, nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b)
		for range 240 {
			time.Sleep(500 * time.Millisecond)
			if a.sees("b", Failed) || b.sees("a", Failed) {
				t.Fatal("a member without UDP was given up")
			}
		}
		if n := b.log.Count("level=WARN msg=\"gossip: Was able to connect"); n != 1 {
			t.Errorf("the missing UDP was reported %d times, want once", n)
		}
		// Nor does a suspicion stay when only TCP can refute it.
		f.network.Partition([]string{"10.0.0.1"}, []string{"10.0.0.2"})
		within(t, 10*time.Second, "b suspects a", func() bool { return b.sees("a", Suspect) })
		f.network.Heal()
		together(t, 30*time.Second, a, b)
	})
}

// deaf is an endpoint behind a firewall that lets no packets out.
type deaf struct{ transport.Endpoint }

func (deaf) WritePacket([]byte, string) error { return errors.New("operation not permitted") }

func TestBadConfigIsRefusedByTheNameOfItsField(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		endpoint, err := f.network.Listen(t.Context(), "10.0.0.1:7643", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer endpoint.Close()
		for want, change := range map[string]func(*Config){
			"Cluster":   func(c *Config) { c.Cluster = strings.Repeat("x", 256) },
			"Endpoint":  func(c *Config) { c.Endpoint = nil },
			"Node":      func(c *Config) { c.Meta.Node = "a~b" },
			"Name":      func(c *Config) { c.Meta.Name = "a\x1b[2J" },
			"Keys":      func(c *Config) { c.Keys = [][]byte{[]byte("short")} },
			"entry":     func(c *Config) { c.Join = []string{"host:port"} },
			"Advertise": func(c *Config) { c.Advertise = "nowhere:1" },
		} {
			cfg := Config{Cluster: "orders", Meta: Meta{Node: "a"}, Endpoint: endpoint, Resolver: f.names}
			change(&cfg)
			if g, err := Open(t.Context(), cfg); err == nil {
				t.Errorf("bad %s was accepted", want)
				_ = g.Close()
			} else if !strings.HasPrefix(err.Error(), "holdfast: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not name %s", err, want)
			}
		}
	})
}

func TestAdvertisedAddressIsWhatOthersSee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.names.set("pod-0", "10.0.0.7")
		for i, c := range []struct{ advertise, want string }{
			{"", "10.0.0.1:7643"},
			{"10.0.0.7:99", "10.0.0.7:99"},
			{"10.0.0.7", "10.0.0.7:7643"},
			{"10.0.0.7:0", "10.0.0.7:7643"},
			{"pod-0:7000", "10.0.0.7:7000"},
			{"fd00::7", "[fd00::7]:7643"},
		} {
			a := f.start("a", uint64(i), "10.0.0.1:7643", func(cfg *Config) { cfg.Advertise = c.advertise })
			if got, _ := a.Address("a"); got != c.want {
				t.Errorf("Advertise %q gives %q, want %q", c.advertise, got, c.want)
			}
			a.crash()
		}
	})
}
