//go:build unix

package main

import (
	"os"
	"testing"
)

// TestMain makes the test binary a process of the service when show starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-service" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The story is the test: it checks itself.
func TestEveryTickRunsOnceOverFailOverAndHandOver(t *testing.T) {
	t.Parallel()
	if err := show(t.Context()); err != nil {
		t.Fatal(err)
	}
}
