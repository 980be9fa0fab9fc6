package processes

import (
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// A small service linked 26 MB of an engine that it never started, and could not require pebble v1.
func TestAProgramOfAClientLinksNoEngine(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "client")
	build := exec.Command("go", "build", "-tags", "holdfast_client", "-o", program, "./testdata/clientonly")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for _, m := range info.Deps {
		linked = append(linked, m.Path)
	}
	for _, engine := range []string{"github.com/lni/", "github.com/cockroachdb/", "github.com/getsentry/", "github.com/hashicorp/memberlist"} {
		if slices.ContainsFunc(linked, func(path string) bool { return strings.HasPrefix(path, engine) }) {
			t.Errorf("%s is linked: %q", engine, linked)
		}
	}

	fleet, err := holdfast.Open(t.Context(), holdfast.Config{Bind: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Close() })
	out, err := exec.Command(program, fleet.Addr()).CombinedOutput()
	if token := strings.TrimSpace(string(out)); err != nil || token == "" || strings.Trim(token, "0123456789") != "" {
		t.Errorf("it got no lock of a fleet: %v\n%s", err, out)
	}
	out, err = exec.Command(program).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Config.ClientOnly") || !strings.Contains(string(out), "holdfast_client") {
		t.Errorf("as a node with a replica it says: %v\n%s", err, out)
	}
}
