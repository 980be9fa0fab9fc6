package membership

import (
	"testing"
	"testing/synctest"
	"time"
)

// A rolling restart of a fleet of three wrote a score of warnings about pings for unexpected nodes,
// failed pings over TCP and refuted suspicions: an operator that watches the log for warnings was called for
// nothing.
func TestARestartAtTheSameAddressIsNoWarning(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, 3 * time.Second, 40 * time.Second} { // at once; while it is probed; given up
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			a, b, c := f.trio()
			c.crash()
			time.Sleep(pause)
			again := f.start("c", 2, "10.0.0.3:7643", nil, "10.0.0.1:7643")
			together(t, time.Minute, a, b, again)
			time.Sleep(time.Minute)
			quiet(t, a, b, c, again)
		})
	}
}

// A member that was cut off for a moment refutes what was said about it.
func TestACutThatHealsSoonIsNoWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		f.network.Isolate("10.0.0.3")
		within(t, time.Minute, "c is suspect", func() bool { return a.sees("c", Suspect) || b.sees("c", Suspect) })
		f.network.Heal()
		together(t, time.Minute, a, b, c)
		time.Sleep(time.Minute)
		quiet(t, a, b, c)
	})
}

func quiet(t *testing.T, members ...*peer) {
	t.Helper()
	for _, m := range members {
		if m.log.Count("level=WARN")+m.log.Count("level=ERROR") > 0 {
			t.Errorf("%s complained: %s", m.self.Node, m.log)
		}
	}
}
