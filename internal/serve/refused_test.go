package serve

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
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
		s.refused(here, fsm.Process{}, fault("of cluster b"))
	}
	if said := lines.Of("refused a client"); len(said) != 3 {
		t.Errorf("%d lines", len(said))
	}
}

// A replica without a place closed the connection, so an operator read "EOF", of each replica in turn.
func TestAClientThatFindsNoPlaceIsToldSo(t *testing.T) {
	t.Parallel()
	lines := new(testlog.Lines)
	s := New(Config{Logger: lines.Logger(slog.LevelWarn)})
	for range ClientsMax {
		s.places <- struct{}{}
	}
	here, there := net.Pipe()
	defer there.Close()
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(t.Context(), here) })
	frame, err := link.NewReader(there, link.RequestMax).Next()
	if err != nil || frame.Kind != link.KindRefuse {
		t.Fatalf("a frame of kind %d, %v", frame.Kind, err)
	}
	refusal, err := link.ParseRefuse(frame.Body)
	if err != nil || refusal.Code != link.RefuseLater || !strings.Contains(refusal.Text, "1024 clients") {
		t.Errorf("%+v, %v", refusal, err)
	}
	serving.Wait()
	if said := lines.Of("refused a client"); len(said) != 1 {
		t.Errorf("%d lines", len(said))
	}
}
