//go:build unix

package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

func TestMain(m *testing.M) { crew.TestMain(m, main) }

// The story is the test: it checks itself.
func TestEveryTickRunsOnceOverFailOverAndHandOver(t *testing.T) {
	t.Parallel()
	if err := show(t.Context()); err != nil {
		t.Fatal(err)
	}
}
