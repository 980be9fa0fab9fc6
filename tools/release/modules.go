package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

type mod struct {
	dir  string // from the main module's, with slashes; "." is that itself
	path string
	file *modfile.File
}

// find returns the modules that are released: the main one first, those of cmd, and those of contrib. What
// is internal there is tests, and examples and tools are for this tree alone.
func find(root string) ([]*mod, error) {
	var all []*mod
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			first, _, _ := strings.Cut(name, "/")
			if name != "." && (first != "contrib" && first != "cmd" || d.Name() == "testdata" || d.Name() == "internal") {
				return fs.SkipDir
			}
			return nil
		}
		if d.Name() != "go.mod" {
			return nil
		}
		m, err := read(root, path.Dir(name))
		all = append(all, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *mod) int { return strings.Compare(a.dir, b.dir) }) // "." is before any letter
	if len(all) == 0 || all[0].dir != "." {
		return nil, fmt.Errorf("%s has no go.mod", root)
	}
	for _, m := range all[1:] {
		if want := path.Join(all[0].path, m.dir); m.path != want {
			return nil, fmt.Errorf("%s: the module is %s; its directory says %s", m.dir, m.path, want)
		}
	}
	return all, nil
}

func read(root, dir string) (*mod, error) {
	name := filepath.Join(root, filepath.FromSlash(dir), "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	if file.Module == nil {
		return nil, fmt.Errorf("%s names no module", name)
	}
	return &mod{dir, file.Module.Mod.Path, file}, nil
}

func (m *mod) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// released is the module's go.mod at a version: modules of all are required at that, and nothing is
// replaced. A replace directive for another module has no place in a release: outsiders build
// without it.
func (m *mod) released(version string, all []*mod) ([]byte, error) {
	if err := module.Check(m.path, version); err != nil || semver.Canonical(version) != version {
		return nil, fmt.Errorf("%q is no version for %s such as v0.1.0: %v", version, m.path, err)
	}
	ours := func(path string) bool {
		return slices.ContainsFunc(all, func(o *mod) bool { return o.path == path })
	}
	for _, r := range slices.Clone(m.file.Replace) {
		if !ours(r.Old.Path) {
			return nil, fmt.Errorf("%s replaces %s, which outsiders do not", m.path, r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(m.file.Require) {
		if !ours(r.Mod.Path) {
			if strings.HasPrefix(r.Mod.Path, all[0].path+"/") {
				return nil, fmt.Errorf("%s requires %s, which is not released", m.path, r.Mod.Path)
			}
			continue
		}
		if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
			return nil, err
		}
	}
	m.file.Cleanup()
	return m.file.Format()
}
