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
			for _, m := range []*member{a, c} {
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

func TestWithUDPNothingIsExchangedByStreamBesides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		time.Sleep(10 * time.Minute)
		for _, m := range []*member{a, b, c} {
			if n := len(m.delegate.deafest(10)); n > 0 {
				t.Errorf("%d members are taken for deaf", n)
			}
		}
	})
}
