package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A balancer that waits for a request that hangs has no connection left for those that would be
// answered.
func TestRequestsThatNeedTheFleetAreRefusedInTimeWhileItCannotAnswer(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	cluster, err := holdfast.Open(t.Context(), holdfast.Config{Bootstrap: 3, Logger: log}) // waits for two others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	s := &service{cluster: cluster, log: log}
	for path, handle := range map[string]http.HandlerFunc{"/orders/{id}": s.order, "/report": s.report, "/leader": s.leader} {
		mux := http.NewServeMux()
		mux.Handle(path, within(100*time.Millisecond, handle))
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, strings.ReplaceAll(path, "{id}", "1"), nil))
		if answer.Code != http.StatusServiceUnavailable {
			t.Errorf("%s answered %d: %s", path, answer.Code, answer.Body)
		}
	}
}

// Do and Once wait for their last release for up to a TTL, whatever the deadline of the request: the
// connection was cut without an answer.
func TestARequestIsAnsweredInTimeWhileItsHandlerGoesOn(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	ended := make(chan struct{})
	answer := httptest.NewRecorder()
	within(100*time.Millisecond, func(_ http.ResponseWriter, r *http.Request) {
		defer close(ended)
		<-r.Context().Done() // the function of Do has ended
		<-released           // its release has not
	}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("answered %d: %s", answer.Code, answer.Body)
	}
	close(released)
	<-ended
}
