package node

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// A founder waits while an address of its Join answers that lets it not in. Its status said that one of one node
// had met, and where another node was in sight it named that address nowhere.
func TestAFounderNamesTheStrangerThatItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const there = "10.0.0.7:7643"
		network := transport.NewMemory(1)
		security, _, err := transport.Security("test", []string{"the secret of a fleet that is another one"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := network.Listen(t.Context(), there, transport.Options{TLS: security, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		env := simenv.Env{Network: network}
		client := opened(t, &heard{}, Config{Bind: "10.0.0.2:7643", Bootstrap: -1, Name: "joins", Env: env})
		seed := opened(t, &heard{}, Config{Name: "seed", Join: []string{there, client.Addr()}, Env: env})
		third := opened(t, &heard{}, Config{Bind: "10.0.0.3:7643", Bootstrap: 3, Name: "third", Join: []string{there, client.Addr()}, Env: env})
		time.Sleep(20 * time.Second)
		for n, want := range map[*Node]string{
			seed: "the node founds no group before it is let in everywhere: what answers at " + there, third: "of the 3 nodes that Bootstrap waits for have met: what answers at " + there,
		} {
			if waits := n.Status().Waits; !strings.Contains(waits, want) {
				t.Errorf("%s waits for %q", n.cfg.Name, waits)
			}
		}
		if err := stranger.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, n := range []*Node{seed, third} {
			if waits := n.Status().Waits; strings.Contains(waits, "what answers at") || strings.Contains(waits, "of the 1 nodes") {
				t.Errorf("%s waits for %q, which has gone", n.cfg.Name, waits)
			}
		}
	})
}
