package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestThePageOfAClientShowsTheFleetToThisMachineAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.hold(t, "import")
	for _, changes := range []bool{false, true} {
		args := []string{"ui"}
		if changes {
			args = append(args, "--changes")
		}
		r := f.start(t, args...)
		url := r.line(t)
		get := func(path, host string) (int, string) {
			t.Helper()
			req, err := http.NewRequestWithContext(testkit.Within(t, patience), http.MethodGet, url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if host != "" {
				req.Host = host
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(body)
		}
		if code, body := get("locks", ""); code != http.StatusOK || !strings.Contains(body, "import") {
			t.Errorf("locks: %d %s", code, body)
		}
		code, body := get("members", "localhost")
		if code != http.StatusOK || !strings.Contains(body, "n0") || !strings.Contains(body, "voter") {
			t.Errorf("members: %d %s", code, body)
		}
		if strings.Contains(body, `action="transfer-leader"`) != changes {
			t.Errorf("with changes %v: %s", changes, body)
		}
		if code, body := get("locks", "example.com"); code != http.StatusMisdirectedRequest || strings.Contains(body, "import") {
			t.Errorf("a name of another site leads to it: %d %s", code, body)
		}
		if code, _ := get("readyz", ""); code != http.StatusOK {
			t.Errorf("readyz: %d", code)
		}
		r.send(t, syscall.SIGTERM)
		if code := r.code(t); code != 0 {
			t.Errorf("it ended with %d: %s", code, r.err)
		}
	}
	f.refused(t, 1, "--listen", "ui", "--listen", "256.0.0.1:1")
}
