//go:build unix

// Package serverstest gives a test a server of its own.
package serverstest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// Start starts a server, such as servers.Postgres, for as long as the test runs. It skips the test
// where the server is not installed.
func Start(t *testing.T, start func(context.Context) (*servers.Server, error)) *servers.Server {
	t.Helper()
	s, err := start(t.Context())
	if errors.Is(err, servers.ErrNotInstalled) {
		t.Skipf("skipped: %v on this machine", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
