package membership

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func TestNodesFindEachOtherByEveryKindOfJoinEntry(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(file, []byte("# our seeds\n\n  dns+seed:7700 # by name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ entry, seed string }{
		{"10.0.0.1:7700", "10.0.0.1:7700"},
		{"10.0.0.1", "10.0.0.1:7643"},
		{"seed:7700", "10.0.0.1:7700"},
		{"seed", "10.0.0.1:7643"},
		{"dns+seed:7700", "10.0.0.1:7700"},
		{"dns+seed", "10.0.0.1:7643"},
		{"dnssrv+_holdfast._tcp.example", "10.0.0.1:7701"},
		{"file+" + file, "10.0.0.1:7700"},
		{"[fd00::1]:7700", "[fd00::1]:7700"},
		{"fd00::1", "[fd00::1]:7643"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.names.set("seed", "10.0.0.1")
			f.names.records = map[string][]*net.SRV{"_holdfast._tcp.example": {{Target: "gone.", Port: 1}, {Target: "seed.", Port: 7701}}}
			seed := f.start("seed", 1, c.seed, nil)
			self := "10.0.0.9:7643"
			if strings.Contains(c.seed, "fd00") {
				self = "[fd00::9]:7643"
			}
			together(t, 20*time.Second, seed, f.start("b", 1, self, nil, c.entry))
		})
	}
}

func TestNodeFindsSeedThatStartsAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil, "seed")
		<-a.Tried()
		if err := a.JoinError(); err == nil || !strings.Contains(err.Error(), "no such host seed") {
			t.Errorf("JoinError = %v, want the name that does not resolve", err)
		}
		time.Sleep(10 * time.Minute)
		b := f.start("b", 1, "10.0.0.2:7643", nil)
		f.names.set("seed", "10.0.0.2")
		together(t, 20*time.Second, a, b) // longest back-off and its jitter
		if err := a.JoinError(); err != nil {
			t.Errorf("JoinError = %v in company, want nil", err)
		}
	})
}

func TestJoinFileIsReadAgainAtEachAttempt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "peers")
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil, "file+"+file)
		b := f.start("b", 1, "10.0.0.2:7643", nil)
		<-a.Tried()
		if a.JoinError() == nil {
			t.Error("JoinError is nil although the file is missing")
		}
		if err := os.WriteFile(file, []byte("10.0.0.2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		together(t, 20*time.Second, a, b)
	})
}

func TestTriedClosesAtOnceWithNobodyToTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a", 1, "10.0.0.1:7643", nil)
		synctest.Wait()
		select {
		case <-a.Tried():
		default:
			t.Error("Tried is still open")
		}
		if err := a.JoinError(); err != nil {
			t.Errorf("JoinError = %v, want nil: there was nobody to try", err)
		}
	})
}

func TestTriedClosesAlthoughNobodyAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil, "10.0.0.2", "10.0.0.3")
		start := time.Now()
		<-a.Tried()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("first round took %v", took)
		}
		if err := a.JoinError(); err == nil || !strings.Contains(err.Error(), "10.0.0.") {
			t.Errorf("JoinError = %v, want one that names an address", err)
		}
	})
}

func TestClustersWithOtherKeysNeverMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		keys := func(bytes ...byte) func(*Config) {
			return func(c *Config) {
				for _, b := range bytes {
					c.Keys = append(c.Keys, []byte(strings.Repeat(string(rune(b)), 32)))
				}
			}
		}
		a := f.start("a", 1, "10.0.0.1:7643", keys('1'))
		b := f.start("b", 1, "10.0.0.2:7643", keys('2'), "10.0.0.1")
		c := f.start("c", 1, "10.0.0.3:7643", nil, "10.0.0.1")
		time.Sleep(time.Minute)
		if len(a.Members()) != 1 || len(b.Members()) != 1 || len(c.Members()) != 1 {
			t.Error("nodes with different keys merged")
		}
		// A node that holds both keys opens what either seals: rotation.
		d := f.start("d", 1, "10.0.0.4:7643", keys('1', '2'), "10.0.0.1")
		together(t, 20*time.Second, a, d)
	})
}

// The name of a fleet may be gone when all of it is restarted.
func TestANodeTriesWhereOthersWereWhenItsJoinEntriesLeadToNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		known := func(c *Config) {
			c.Known = func() []string { return []string{"10.0.0.1:7643", "10.0.0.2:7643", "10.0.0.3:7643"} }
		}
		a := f.start("a", 1, "10.0.0.1:7643", known, "gone")
		<-a.Tried()
		err := a.JoinError()
		if err == nil || !strings.Contains(err.Error(), "no such host gone") || !strings.Contains(err.Error(), "join 10.0.0.2:7643") {
			t.Errorf("JoinError = %v, want the name and the addresses", err)
		}
		b := f.start("b", 1, "10.0.0.2:7643", nil)
		together(t, 20*time.Second, a, b)
		if err := a.JoinError(); err != nil {
			t.Errorf("JoinError = %v in company, want nil", err)
		}
	})
}

// A directory that was copied to another fleet knows the addresses of the first.
func TestANodeDoesNotTryWhereOthersWereWhenAJoinEntryLeadsToOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.start("b", 1, "10.0.0.2:7643", nil)
		a := f.start("a", 1, "10.0.0.1:7643", func(c *Config) {
			c.Known = func() []string { t.Error("asked for known addresses"); return nil }
		}, "10.0.0.2")
		<-a.Tried()
	})
}

// A node that was about to start refused the first dial, and joined by itself. It stayed a stranger until the next
// round of joining, eight seconds later, and a node that founds a group waited for that.
func TestAMemberThatIsHereIsNoStranger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stranger, err := f.network.Listen(t.Context(), "10.0.0.2:7643", transport.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		a := f.start("a", 1, "10.0.0.1:7643", nil, "10.0.0.2:7643")
		<-a.Tried()
		if _, ok := a.Strangers()["10.0.0.2:7643"]; !ok {
			t.Fatal("what accepts no gossip is a stranger")
		}
		if err := stranger.Close(); err != nil {
			t.Fatal(err)
		}
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1:7643")
		<-b.Tried()
		if !a.sees("b", Alive) || len(a.Strangers()) > 0 {
			t.Errorf("a sees b: %v; strangers %v", a.sees("b", Alive), a.Strangers())
		}
	})
}
