package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func TestNewsTravelWithoutUDPToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.network.SetFaults("*", "*", transport.Faults{Drop: 1}) // packets alone
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1")
		c := f.start("c", 1, "10.0.0.3:7643", nil, "10.0.0.1")
		together(t, 10*time.Second, a, b, c)
		for level := range uint64(5) {
			meta := b.delegate.getMeta()
			meta.Level = level + 1
			if err := b.SetMeta(meta); err != nil {
				t.Fatal(err)
			}
			for _, m := range []*peer{a, c} {
				within(t, 3*streamEvery, "the news of b", func() bool {
					got, _ := m.Member("b")
					return got.Level == level+1
				})
			}
		}
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.crash()
		within(t, 30*time.Second, "c has left", func() bool { return a.sees("c", Left) && b.sees("c", Left) })
	})
}

// overStreams starts two members that see each other, over streams alone.
func (f *fleet) overStreams() (a, b *peer) {
	f.t.Helper()
	alone := func(c *Config) { c.Streams = true }
	a = f.start("a", 1, "10.0.0.1:7643", alone)
	b = f.start("b", 1, "10.0.0.2:7643", alone, "10.0.0.1")
	together(f.t, 10*time.Second, a, b)
	return a, b
}

func TestOverStreamsAloneNoPacketIsSentOrHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.overStreams()
		stranger, err := f.network.Listen(t.Context(), "10.0.0.66:1", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		for range 60 {
			if err := stranger.WritePacket(of("orders", kindPing, 0x80), "10.0.0.1:7643"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if !a.sees("b", Alive) || !b.sees("a", Alive) {
				t.Fatal("a member was given up")
			}
		}
		if n := a.carrier.refused.Load(); n != 60 {
			t.Errorf("%d packets refused, want the 60 of the stranger and none of b", n)
		}
		if a.log.Count("UDP probes failed")-a.log.Count("level=DEBUG msg=\"gossip: Was able") > 0 {
			t.Error("complained about UDP that is not used")
		}
	})
}

// A probe waited half of its second for a packet that nobody sends. A stream of TLS between two
// continents did not begin and answer in the rest, so a third of the time a member that was well was suspect.
func TestOverStreamsAloneAMemberFarAwayIsNotSuspect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.overStreams()
		f.network.SetFaults("*", "*", transport.Faults{Delay: 170 * time.Millisecond}) // 340 ms there and back
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if !a.sees("b", Alive) || !b.sees("a", Alive) {
				t.Fatal("a member that answers is suspect")
			}
		}
	})
}

func TestWithUDPNothingIsExchangedByStreamBesides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		time.Sleep(10 * time.Minute)
		for _, m := range []*peer{a, b, c} {
			if n := len(m.delegate.deafest(10)); n > 0 {
				t.Errorf("%d members are taken for deaf", n)
			}
		}
	})
}
