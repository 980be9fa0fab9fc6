package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// tree writes go.mod files: of directories, each with what follows its module line.
func tree(t *testing.T, mods map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for dir, rest := range mods {
		place := filepath.Join(root, dir)
		if err := os.MkdirAll(place, 0o755); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix("example.com/lock/"+dir, "/.")
		if err := os.WriteFile(filepath.Join(place, "go.mod"), []byte("module "+name+"\n\ngo 1.26.0\n\n"+rest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const usesMain = "replace example.com/lock => ../..\n\nrequire (\n\texample.com/lock v0.0.0-00010101000000-000000000000\n\texample.org/other v1.2.3\n)\n"

func TestAReleaseNamesItsVersionAndReplacesNothing(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		".": "", "contrib/a": usesMain, "contrib/c": usesMain, "contrib/internal/f": usesMain, "sim/g": usesMain, "cmd/h": usesMain, "examples/d": usesMain, "contrib/a/testdata/e": usesMain,
		"contrib/b": usesMain + "replace example.com/lock/contrib/a => ../a\nrequire example.com/lock/contrib/a v0.0.0-00010101000000-000000000000 // indirect\n",
	})
	tags, err := release(root, "v0.3.0")
	if want := []string{"v0.3.0", "cmd/h/v0.3.0", "contrib/a/v0.3.0", "contrib/b/v0.3.0", "contrib/c/v0.3.0"}; err != nil || !slices.Equal(tags, want) {
		t.Fatalf("%v, %v; want %v", tags, err, want)
	}
	for dir, want := range map[string][]string{
		".": nil, "cmd/h": {"example.com/lock v0.3.0", "example.org/other v1.2.3"}, "contrib/a": {"example.com/lock v0.3.0", "example.org/other v1.2.3"}, "contrib/c": {"example.com/lock v0.3.0", "example.org/other v1.2.3"},
		"contrib/b": {"example.com/lock v0.3.0", "example.org/other v1.2.3", "example.com/lock/contrib/a v0.3.0"},
	} {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse("go.mod", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range file.Require {
			got = append(got, r.Mod.Path+" "+r.Mod.Version)
		}
		if !slices.Equal(got, want) || len(file.Replace) > 0 {
			t.Errorf("%s:\n%s", dir, text)
		}
	}
	for _, dir := range []string{"examples/d", "contrib/internal/f", "sim/g", "contrib/a/testdata/e"} {
		if text, err := os.ReadFile(filepath.Join(root, dir, "go.mod")); err != nil || !strings.HasSuffix(string(text), usesMain) {
			t.Errorf("%s is not released, but was changed: %v\n%s", dir, err, text)
		}
	}
}

func TestWhatOutsidersCannotBuildIsNoRelease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ version, contrib, other string }{
		"no version":                      {"", usesMain, ""},
		"half a version":                  {"v0.3", usesMain, ""},
		"a version of another major":      {"v2.0.0", usesMain, ""},
		"a replaced module of others":     {"v0.3.0", "replace example.org/other => ../other\nrequire example.org/other v1.2.3\n", ""},
		"a requirement that stays behind": {"v0.3.0", "require example.com/lock/examples/d v0.0.0-00010101000000-000000000000\n", ""},
		"a module with another's name":    {"v0.3.0", usesMain, "module example.com/lock/contrib/z\n"},
	} {
		root := tree(t, map[string]string{".": "", "contrib/a": c.contrib})
		if c.other != "" {
			if err := os.MkdirAll(filepath.Join(root, "contrib", "y"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "contrib", "y", "go.mod"), []byte(c.other), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(filepath.Join(root, "contrib", "a", "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if tags, err := release(root, c.version); err == nil {
			t.Errorf("%s: released as %v", name, tags)
		}
		if after, err := os.ReadFile(filepath.Join(root, "contrib", "a", "go.mod")); err != nil || string(after) != string(before) {
			t.Errorf("%s: a go.mod was changed, %v", name, err)
		}
	}
}
