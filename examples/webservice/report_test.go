package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// slowReader looks, when the answer comes, whether the lock is still held.
type slowReader struct {
	*httptest.ResponseRecorder
	held func() bool
	kept bool
}

func (r *slowReader) Write(p []byte) (int, error) {
	r.kept = r.kept || r.held()
	return r.ResponseRecorder.Write(p)
}

// A client that reads slowly would hold the lock of the whole fleet, and be told 200 before it is
// known that the lease was not lost.
func TestAReportIsSentWhenItsLockIsFree(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	cluster, err := holdfast.Open(t.Context(), holdfast.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	answer := &slowReader{ResponseRecorder: httptest.NewRecorder(), held: func() bool {
		info, err := cluster.Inspect(t.Context(), "report")
		if err != nil {
			t.Error(err)
		}
		return len(info.Holders) > 0
	}}
	s := &service{cluster: cluster, log: log}
	s.report(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/report", nil))
	if answer.Code != http.StatusOK || answer.Body.Len() == 0 || answer.kept {
		t.Errorf("%d %q, under the lock: %v", answer.Code, answer.Body, answer.kept)
	}
}
