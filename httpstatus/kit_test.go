package httpstatus

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

const patience = time.Minute // for what takes milliseconds on an idle machine

func within(t *testing.T) context.Context { return testkit.Within(t, patience) }

// node is a fleet of one.
func node(t *testing.T) *holdfast.Cluster {
	t.Helper()
	return holdfasttest.Fleet(t, 1, holdfasttest.Configure(func(_ int, cfg *holdfast.Config) { cfg.Name = "amber" }))[0]
}

// patient is a Handler whose deadline a slow machine does not miss.
func patient(c *holdfast.Cluster, opts Options) http.Handler { return newHandler(c, opts, patience) }

// get asks a handler, again while the node is not served: a starved machine makes it ill for a
// moment, and what it shows then is old.
func get(t *testing.T, h http.Handler, path string) (code int, body string) {
	t.Helper()
	testkit.Settles(t, patience, "answer of a node that is served", func() bool {
		code, body = ask(t, h, path)
		old := strings.Contains(body, "cannot be read") || strings.Contains(body, "locks are not known") || strings.Contains(body, `"stale": "`) && !strings.Contains(body, `"stale": ""`)
		return !old && !strings.Contains(body, "[-]serving")
	})
	return code, body
}

// ask asks a handler once.
func ask(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// read asks for JSON.
func read(t *testing.T, h http.Handler, path string) map[string]any {
	t.Helper()
	code, body := get(t, h, path)
	v := make(map[string]any)
	if err := json.Unmarshal([]byte(body), &v); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d %v: %s", path, code, err, body)
	}
	return v
}

// post sends a form, as a browser does from a page of the same site unless change says otherwise.
func post(t *testing.T, h http.Handler, path string, form url.Values, change ...func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func allow(*http.Request) error { return nil }
