package settings_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/consensus/preinit/settings"
)

const childVar = "HOLDFAST_SETTINGS_CHILD"

// TestMain in a child tells where it is and what was ignored. That it gets there is half of each
// test.
func TestMain(m *testing.M) {
	if os.Getenv(childVar) == "" {
		os.Exit(m.Run())
	}
	here, err := os.Getwd()
	fmt.Println(here, err, strings.Join(settings.Ignored(), ","))
}

// start runs a program in dir, as it would be if it imported this library, and returns what it
// says.
func start(t *testing.T, dir string, change ...func(*exec.Cmd)) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir, cmd.Env = dir, append(os.Environ(), childVar+"=1")
	for _, f := range change {
		f(cmd)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("in %s: %v\n%s", dir, err, stderr.String())
	}
	return strings.TrimSpace(out.String())
}

// directory makes one with a file of settings.
func directory(t *testing.T, name, content string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFilesOfSettingsDoNotEndTheProgram(t *testing.T) {
	t.Parallel()
	const hard, soft = "dragonboat-hard-settings.json", "dragonboat-soft-settings.json"
	for name, file := range map[string]struct{ name, content, says string }{
		"none":           {"other.json", "{", ""},
		"sound":          {soft, `{"MaxEntrySize": 10}`, soft},
		"no JSON":        {hard, `{"MaxEntrySize": 1`, hard},
		"empty":          {soft, ``, soft},
		"of other types": {soft, `{"MaxEntrySize": "ten", "BatchedEntryApply": 3}`, soft},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := directory(t, file.name, file.content)
			if got, want := start(t, dir), strings.TrimSpace(dir+" <nil> "+file.says); got != want {
				t.Errorf("the program says %q, want %q", got, want)
			}
		})
	}
}
