//go:build unix

package processes_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// granted is the highest token that a caller was told of, and how many there were.
type granted struct {
	mu      sync.Mutex
	highest holdfast.Token
	count   int
	grown   chan struct{}
}

func (g *granted) note(token holdfast.Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.highest, g.count = max(g.highest, token), g.count+1
	select {
	case g.grown <- struct{}{}:
	default:
	}
}

// more waits until so many more were granted.
func (g *granted) more(t *testing.T, n int) {
	t.Helper()
	g.mu.Lock()
	want := g.count + n
	g.mu.Unlock()
	late := time.After(time.Minute)
	for {
		g.mu.Lock()
		enough := g.count >= want
		g.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-g.grown:
		case <-late:
			t.Fatal("the load stands still")
		}
	}
}

// loaded has callers of a process take turns until it dies.
func (g *granted) loaded(p *proc, all *sync.WaitGroup) {
	for caller := range 4 {
		all.Go(func() {
			for {
				answered := p.begin(order{Op: "turn", Name: fmt.Sprint("lock", caller), TTL: 2 * time.Second})
				a, err := p.Await(context.Background(), answered)
				if err != nil {
					return
				}
				if a.Err == "" {
					g.note(a.Token)
				}
			}
		})
	}
}

// recovered recovers a group without a node that runs, and looks for one if the source is a directory.
func recovered(t *testing.T, cfg holdfast.RecoverConfig) {
	t.Helper()
	cfg.Logger, cfg.Unseen = slog.New(slog.DiscardHandler), cfg.From != nil
	report, err := holdfast.Recover(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

const longestTTL = 3 * time.Second

// lost is what a group leaves behind whose majority died under load with its disks, and its last node
// with it: the directory of that, a backup from before, and what had been granted.
func lost(t *testing.T) (last *proc, copied string, before *granted) {
	t.Helper()
	p := procs(t, 3, func(cfg *processConfig) { cfg.MaxTTL = longestTTL })
	before = &granted{grown: make(chan struct{}, 1)}
	var load sync.WaitGroup
	for _, q := range p {
		before.loaded(q, &load)
	}
	before.more(t, 100)
	copied = filepath.Join(t.TempDir(), "backup")
	p[0].must(order{Op: "backup", Name: copied})
	before.more(t, 100)
	for _, q := range p[1:] {
		q.kill()
		if err := os.RemoveAll(q.cfg.DataDir); err != nil {
			t.Fatal(err)
		}
	}
	p[0].kill()
	load.Wait()
	return p[0], copied, before
}

// goesOn starts a fleet of which the first node has what was recovered, and takes locks on each.
func (g *granted) goesOn(t *testing.T, cluster string, begin func(t *testing.T, first *processConfig)) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		cfg := processConfig{
			Cluster: cluster, Name: fmt.Sprint("r", i), DataDir: filepath.Join(dir, fmt.Sprint(i)), MaxTTL: longestTTL,
			Join: []string{"file+" + filepath.Join(dir, "peers")}, Bootstrap: -1,
		}
		if i == 0 {
			begin(t, &cfg)
		}
		q := &proc{t: t, cfg: cfg}
		q.start()
		q.ready()
		for j := range 20 {
			a := q.must(order{Op: "turn", Name: fmt.Sprint("lock", j%4), TTL: 2 * time.Second})
			if a.Token <= g.highest {
				t.Errorf("token %d after a group that had granted %d", a.Token, g.highest)
			}
		}
	}
}

// Whatever the group is recovered from, none of its tokens is one that a caller was ever told of, or
// below.
func TestEveryTokenAfterARecoveryIsAboveAllThatWereGrantedBefore(t *testing.T) {
	t.Parallel()
	last, copied, before := lost(t)
	for name, begin := range map[string]func(t *testing.T, first *processConfig){
		"from the last directory": func(t *testing.T, first *processConfig) {
			recovered(t, holdfast.RecoverConfig{DataDir: last.cfg.DataDir, Join: last.cfg.Join, AllStopped: true})
			first.DataDir = last.cfg.DataDir
		},
		"from a backup": func(t *testing.T, first *processConfig) {
			file, err := os.Open(copied)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			recovered(t, holdfast.RecoverConfig{DataDir: first.DataDir, From: file})
		},
		"restored in memory": func(_ *testing.T, first *processConfig) {
			first.DataDir, first.Restore, first.Bootstrap = "", copied, 1
		},
	} {
		t.Run(name, func(t *testing.T) { before.goesOn(t, last.cfg.Cluster, begin) })
	}
}
