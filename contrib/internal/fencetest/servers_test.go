//go:build unix

package fencetest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A MariaDB that was killed in its first life left a system tablespace that it refused to open.
func TestAServerThatIsKilledRightAfterItsStartStartsAgain(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context) (*servers.Server, error){
		"Postgres": servers.Postgres, "MariaDB": servers.MariaDB, "Redis": servers.Redis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := start(t.Context())
			if errors.Is(err, servers.ErrNotInstalled) {
				t.Skipf("skipped: %v on this machine", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			for range 3 {
				s.Kill()
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
