package holdfast_test

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

// quiet is a logger for tests in which nodes have reason to complain.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// book is a file of addresses through which the nodes of a test find each other.
type book struct {
	t    testing.TB
	path string
	mu   sync.Mutex
}

func newBook(t testing.TB) *book {
	t.Helper()
	return &book{t: t, path: filepath.Join(t.TempDir(), "peers")}
}

func (b *book) join() []string { return []string{"file+" + b.path} }

// add writes where c is.
func (b *book) add(c *holdfast.Cluster) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	fmt.Fprintln(f, c.Addr())
	if err := f.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a node on real sockets that joins through the book.
func (b *book) open(i int, change ...func(i int, cfg *holdfast.Config)) *holdfast.Cluster {
	b.t.Helper()
	cfg := holdfast.Config{Name: fmt.Sprint("n", i), Join: b.join(), Logger: quiet()}
	for _, f := range change {
		f(i, &cfg)
	}
	c, err := holdfast.Open(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	b.add(c)
	return c
}

// fleet opens n nodes on real sockets in this process and waits until all are ready.
func fleet(t testing.TB, n int, change ...func(i int, cfg *holdfast.Config)) []*holdfast.Cluster {
	t.Helper()
	b := newBook(t)
	list := make([]*holdfast.Cluster, n)
	for i := range list {
		list[i] = b.open(i, append([]func(int, *holdfast.Config){func(_ int, cfg *holdfast.Config) {
			cfg.Bootstrap = min(n, 3)
		}}, change...)...)
	}
	allReady(t, list)
	return list
}

func allReady(t testing.TB, list []*holdfast.Cluster) {
	t.Helper()
	for i, c := range list {
		if err := c.Ready(within(t, 30*time.Second)); err != nil {
			t.Fatalf("node %d is not ready: %v", i, err)
		}
	}
}

// serves fails the test unless the node grants, verifies and releases a lock of its own.
func serves(t testing.TB, ctx context.Context, c *holdfast.Cluster) {
	t.Helper()
	name := "own/" + c.ID()
	l, err := c.Acquire(ctx, name)
	if err != nil {
		t.Fatalf("acquiring: %v", err)
	}
	if err := c.Verify(ctx, name, l.Token()); err != nil {
		t.Errorf("verifying: %v", err)
	}
	if info, err := c.Inspect(ctx, name); err != nil || len(info.Holders) != 1 || info.Holders[0].NodeID != c.ID() {
		t.Errorf("inspecting: %+v, %v", info, err)
	}
	if err := l.Release(ctx); err != nil {
		t.Errorf("releasing: %v", err)
	}
}
