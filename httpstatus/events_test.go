package httpstatus

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// serve serves a handler below a path, as a service does.
func serve(t *testing.T, h http.Handler) (server *http.Server, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/below/", http.StripPrefix("/below", h))
	server = &http.Server{Handler: mux}
	over := make(chan struct{})
	go func() { defer close(over); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-over })
	return server, "http://" + listener.Addr().String() + "/below/"
}

// stream is what a browser receives.
type stream struct {
	*http.Response
	lines *bufio.Scanner
}

func open(t *testing.T, address string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close(); transport.CloseIdleConnections() })
	return &stream{answer, bufio.NewScanner(answer.Body)}
}

// next is the data of the next event of a kind.
func (s *stream) next(t *testing.T, kind string) map[string]any {
	t.Helper()
	at := ""
	for s.lines.Scan() {
		if k, ok := strings.CutPrefix(s.lines.Text(), "event: "); ok {
			at = k
		}
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok && at == kind {
			v := make(map[string]any)
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("the stream has ended: %v", s.lines.Err())
	return nil
}

func TestEventsReachTheBrowser(t *testing.T) {
	t.Parallel()
	c := node(t)
	_, address := serve(t, patient(c, Options{}))
	all := open(t, address+"api/events")
	if state := all.next(t, "state"); state["state"] == "" {
		t.Errorf("the state is %v", state)
	}
	one := open(t, address+"api/events?name=a")
	one.next(t, "state") // from here on it follows
	testkit.Acquire(t, c, "ab")
	l := testkit.Acquire(t, c, "a", holdfast.WithLabel("line\u2028break"))
	if err := l.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ab granted", "a granted", "a released"} {
		e := all.next(t, "lock")
		if got := e["name"].(string) + " " + e["kind"].(string); got != want {
			t.Errorf("%q where %q was next", got, want)
		}
	}
	if e := one.next(t, "lock"); e["name"] != "a" || e["label"] != "line\u2028break" {
		t.Errorf("the stream of one lock has %v", e)
	}
}

func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	c := node(t)
	server, address := serve(t, patient(c, Options{}))
	var all []*stream
	for range streamsMax {
		s := open(t, address+"api/events")
		s.next(t, "state")
		all = append(all, s)
	}
	refused := open(t, address+"api/events")
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", refused.StatusCode)
	}
	if code := open(t, address+"livez").StatusCode; code != http.StatusOK {
		t.Errorf("streams keep others out: %d", code)
	}
	if err := server.Shutdown(within(t)); err != nil { // does not wait for streams to end by themselves
		t.Error(err)
	}
	for _, s := range all {
		for s.lines.Scan() {
		}
	}
}

func TestAStreamEndsWithTheNode(t *testing.T) {
	t.Parallel()
	c := node(t)
	_, address := serve(t, patient(c, Options{}))
	s := open(t, address+"api/events")
	s.next(t, "state")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if end := s.next(t, "end"); !strings.Contains(end["error"].(string), "closed") {
		t.Errorf("it ends with %v", end)
	}
}

// A client that reads slowly costs the events of one flush, and learns how many it has missed.
func TestEventsBeyondTheBoundAreCounted(t *testing.T) {
	t.Parallel()
	b := &batch{}
	for range batchMax + 7 {
		b.add(holdfast.Event{Kind: holdfast.EventGranted})
	}
	b.end(context.Canceled)
	events, missed, err := b.take()
	if len(events) != batchMax || missed != 7 || err != context.Canceled {
		t.Errorf("%d events, %d missed, %v", len(events), missed, err)
	}
	if events, missed, _ = b.take(); len(events) != 0 || missed != 0 {
		t.Errorf("they come twice: %d, %d", len(events), missed)
	}
}
