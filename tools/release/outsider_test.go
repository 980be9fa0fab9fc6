package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// outsider is somebody with a go command, an empty cache of modules and a proxy that has the
// release.
type outsider struct{ env []string }

// newOutsider serves modules that are not of the release from this machine's cache where it has
// them: so little is downloaded. Their sums are checked where the tree itself is built. With
// -trimpath what is built once stays in the build cache, wherever the modules are.
func newOutsider(t *testing.T, proxy string) *outsider {
	t.Helper()
	var set struct{ GOMODCACHE, GOPROXY string }
	out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOPROXY").Output()
	if err == nil {
		err = json.Unmarshal(out, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	proxies := []string{"file://" + filepath.ToSlash(proxy), "file://" + filepath.ToSlash(filepath.Join(set.GOMODCACHE, "cache", "download")), set.GOPROXY}
	return &outsider{append(os.Environ(), "GOPROXY="+strings.Join(proxies, ","), "GOPRIVATE=", "GONOPROXY=", "GOENV=off",
		"GOSUMDB=off", "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -mod=mod -trimpath", "GOWORK=off", "GOBIN="+t.TempDir())}
}

// run runs the go command in a directory and returns what it prints.
func (o *outsider) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, o.env
	var diagnosis strings.Builder
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, diagnosis.String())
	}
	return string(out)
}

// packages are those of a module that others may import, and its commands.
func (o *outsider) packages(t *testing.T, dir string, m *mod) (libraries, commands []string) {
	t.Helper()
	list := o.run(t, dir, "list", "-f", "{{.Name}} {{.ImportPath}} {{len .GoFiles}}", m.path+"/...")
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		name, path := words[0], words[1]
		in := strings.Split(path, "/")
		switch {
		case words[2] == "0" || slices.Contains(in, "internal"):
		case name == "main":
			commands = append(commands, path)
		default:
			libraries = append(libraries, path)
		}
	}
	return libraries, commands
}

// Whether a package compiles the tree's own build says; here all that it needs must be found.
// Commands are installed, but those of the main module, where each links the engine; they are
// found.
func TestAnOutsiderGetsEveryModuleAndInstallsItsCommands(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	all, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutsider(t, proxy(t, root, all))
	for _, m := range all {
		t.Run(m.dir, func(t *testing.T) {
			dir := t.TempDir()
			o.run(t, dir, "mod", "init", "example.com/outsider")
			o.run(t, dir, "get", m.path+"@"+version)
			libraries, commands := o.packages(t, dir, m)
			if len(libraries)+len(commands) == 0 {
				t.Fatal("the module has nothing for others")
			}
			var program strings.Builder
			program.WriteString("package main\n\nimport (\n")
			for _, path := range libraries {
				program.WriteString("\t_ \"" + path + "\"\n")
			}
			program.WriteString(")\n\nfunc main() {}\n")
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			// It fails if a package or a module is missing.
			used := o.run(t, dir, append([]string{"list", "-deps", "-f",
				"{{with .Module}}{{.Path}} {{.Version}}{{with .Replace}} => {{.Path}}{{end}}{{end}}", "."}, commands...)...)
			for line := range strings.Lines(used) {
				path, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				ours := path == all[0].path || strings.HasPrefix(path, all[0].path+"/")
				if ours && rest != version || strings.Contains(rest, "=>") {
					t.Errorf("the module is built with %s %s", path, rest)
				}
			}
			if m.dir == "." {
				return
			}
			for _, path := range commands {
				o.run(t, dir, "install", path+"@"+version)
			}
		})
	}
}
