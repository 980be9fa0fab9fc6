//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func TestMain(m *testing.M) { crew.TestMain(m, main) }

// The story is the test: it checks itself.
func TestEveryWebhookIsHandledOnceThoughAProcessIsKilled(t *testing.T) {
	t.Parallel()
	if err := show(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Two ids that begin alike were one key, and the second was answered 200 and dropped. An id that names
// no key was answered 503, so its sender delivered it for ever.
func TestAnIDThatCannotBeHandledIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	marks, err := fence.OpenFile(filepath.Join(dir, "marks"))
	if err != nil {
		t.Fatal(err)
	}
	defer marks.Close()
	handler := webhook(holdfasttest.Fleet(t, 1)[0], &journal{marks: marks, path: filepath.Join(dir, "handled"), name: "a"})
	long := strings.Repeat("a", idMax)
	for id, want := range map[string]int{
		"001": http.StatusOK, long: http.StatusOK,
		long + "b": http.StatusBadRequest, "a\nb": http.StatusBadRequest, "\xff": http.StatusBadRequest,
	} {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(id)))
		if w.Code != want {
			t.Errorf("%q: %d %s", id, w.Code, w.Body)
		}
	}
	handled, err := os.ReadFile(filepath.Join(dir, "handled"))
	if lines := strings.Count(string(handled), "\n"); err != nil || lines != 2 {
		t.Errorf("%d webhooks were handled, want 2; %v", lines, err)
	}
}
