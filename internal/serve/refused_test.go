package serve

import (
	"log/slog"
	"net"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testlog"
)

// A thousand clients of another cluster's name that go on asking must not fill a replica's disk with lines.
func TestRefusedClientsAreSaidSeldom(t *testing.T) {
	t.Parallel()
	lines := new(testlog.Lines)
	s := New(Config{Logger: lines.Logger(slog.LevelWarn)})
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for range 1000 {
		s.refused(&client{conn: here}, fault("of cluster b"))
	}
	if said := lines.Of("refused a client"); len(said) != 3 {
		t.Errorf("%d lines", len(said))
	}
}
