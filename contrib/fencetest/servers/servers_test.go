//go:build unix

package servers

import (
	"context"
	"errors"
	"testing"
)

// A MariaDB that was killed in its first life left a system tablespace that it refused to open.
func TestAServerThatIsKilledRightAfterItsStartStartsAgain(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context) (*Server, error){
		"Postgres": Postgres, "MariaDB": MariaDB, "Redis": Redis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := start(t.Context())
			if errors.Is(err, ErrNotInstalled) {
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
