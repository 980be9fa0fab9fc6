package holdfast_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVar) != "" {
		os.Exit(process())
	}
	if os.Getenv(parkedVar) != "" {
		os.Exit(m.Run()) // a failed engine leaves parked goroutines
	}
	goleak.VerifyTestMain(m)
}

// single opens a working node in memory and closes it at the end of the test.
func single(t testing.TB, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	var cfg holdfast.Config
	for _, f := range change {
		f(&cfg)
	}
	c, err := holdfast.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// within returns a context that ends with the test or after d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	l, err := c.Acquire(within(t, 30*time.Second), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
}
