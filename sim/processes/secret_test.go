//go:build unix

package processes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A rollout gave one process of a fleet another secret. It says what it was told, in the words of what it can
// know, and the raft leader that it does not hear it; the others serve.
func TestAProcessThatComesBackWithAnotherSecretSaysWhatKeepsItOut(t *testing.T) {
	t.Parallel()
	addrs, err := process.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	right := []string{"the secret of this fleet, that nobody guesses"}
	n := 0
	list := procs(t, 3, func(cfg *processConfig) { cfg.Secrets, cfg.Bind, n = right, addrs[n], n+1 })
	list[0].must(order{Op: "acquire", Name: "kept", TTL: time.Hour})
	odd := list[2]
	testkit.Polled(t, "the address of another on its disk", func() bool { // the next comes within a minute
		text, err := os.ReadFile(filepath.Join(odd.cfg.DataDir, "peers.json"))
		return err == nil && strings.Contains(string(text), "127.0.0.1")
	})
	odd.kill()
	odd.cfg.Secrets = []string{"another secret, that nobody guesses either"}
	odd.start()
	odd.says("what the others answered", func(s status) bool {
		told := 0
		for _, v := range s.Sights {
			if strings.Contains(v.Ill, "peer does not know the cluster's secret") {
				told++
			}
		}
		return !s.Ready && beginsWith(ownWords(), s.Waits) && told > 0
	})
	if a := odd.ask(order{Op: "acquire", Name: "none", TTL: time.Minute, Timeout: 2 * time.Second}); !a.NoQuorum {
		t.Errorf("a process with another secret: token %d, %q", a.Token, a.Err)
	}
	id := odd.must(order{Op: "status"}).Node
	leader, _ := byRole(t, list[:2])
	leader.says("that it does not hear it", func(s status) bool { return s.Ready && strings.HasPrefix(s.sees(id), "not heard for ") })
	for _, p := range list[:2] {
		p.must(order{Op: "turn", Name: "of the two", TTL: time.Minute})
	}
	odd.kill()
	odd.cfg.Secrets = right
	odd.start()
	odd.ready()
}
