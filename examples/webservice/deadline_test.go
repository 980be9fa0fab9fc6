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
		mux.HandleFunc(path, within(100*time.Millisecond, handle))
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, strings.ReplaceAll(path, "{id}", "1"), nil))
		if answer.Code != http.StatusServiceUnavailable {
			t.Errorf("%s answered %d: %s", path, answer.Code, answer.Body)
		}
	}
}
