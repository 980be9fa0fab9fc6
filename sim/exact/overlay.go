package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeOverlay writes the changed files of the standard library in goroot and the list of them
// below dir, and returns the name of the list, which is what -overlay of the go command wants.
func writeOverlay(goroot, version, dir string) (string, error) {
	if !slices.Contains(known(), version) {
		return "", fmt.Errorf("this is %s, and exact replay is known to work with %s alone: read the patches against it first",
			version, strings.Join(known(), ", "))
	}
	files, err := changed(func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(goroot, "src", filepath.FromSlash(name)))
	})
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(goroot, "src", filepath.FromSlash(name))] = path
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o644)
}

// changed applies the patches to what read returns, and adds the new files.
func changed(read func(name string) ([]byte, error)) (map[string]string, error) {
	files := make(map[string]string)
	for _, p := range patches() {
		text, ok := files[p.file]
		if !ok {
			b, err := read(p.file)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, p.old); n != 1 {
			return nil, fmt.Errorf("%s: the place to patch is there %d times (%s)", p.file, n, p.why)
		}
		files[p.file] = strings.Replace(text, p.old, p.new, 1)
	}
	for name, text := range added() {
		if _, err := read(name); err == nil {
			return nil, fmt.Errorf("%s: is there already", name)
		}
		files[name] = text
	}
	return files, nil
}
