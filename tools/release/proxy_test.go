package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// version is that of the release which the tests make up.
const version = "v0.0.1"

// file is one file of a module's zip: at another place for a rewritten one, and for the licence,
// which the go command takes from the main module where a module has none.
type file struct{ name, place string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.place) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.place) }

// proxy writes the modules into a directory that serves as GOPROXY.
func proxy(t *testing.T, root string, all []*mod) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range all {
		text, err := m.released(version, all)
		if err != nil {
			t.Fatal(err)
		}
		escaped, err := module.EscapePath(m.path)
		if err != nil {
			t.Fatal(err)
		}
		place := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(place, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"list": version + "\n", version + ".mod": string(text),
			version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2020-01-01T00:00:00Z"}`, version),
		} {
			if err := os.WriteFile(filepath.Join(place, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		pack(t, m, root, filepath.Join(place, version))
	}
	return dir
}

// pack writes the zip of a module: to is its place without the ending.
func pack(t *testing.T, m *mod, root, to string) {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(m.dir))
	checked, err := zip.CheckDir(dir)
	if err == nil {
		err = checked.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	var files []zip.File
	licensed := false
	for _, name := range checked.Valid { // names are paths that begin with dir
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		place := name
		if rel == "go.mod" {
			place = to + ".mod"
		}
		licensed = licensed || rel == "LICENSE"
		files = append(files, file{filepath.ToSlash(rel), place})
	}
	if !licensed {
		files = append(files, file{"LICENSE", filepath.Join(root, "LICENSE")})
	}
	out, err := os.Create(to + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.Create(out, module.Version{Path: m.path, Version: version}, files); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
