package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// version is that of the release which the tests make up.
	version = "v0.0.1"
	// runEnv has every program of an outsider tidied, built and run. Without it a program that links
	// the engine is not built, and what the tests of modules need is not fetched: `make outsider`.
	runEnv = "HOLDFAST_OUTSIDER"
	// untagged is what users ask for while nothing is released: the branch.
	untagged = "main"
)

// outsider is somebody with a go command, an empty cache of modules and no clone: the go command
// finds the repository by its address, which git takes for a bare clone on this machine.
type outsider struct {
	env []string
	all []*mod // of the tree; the first is the main module
}

// newOutsider has no module of ours. Those of others it has where this machine has them: so little is
// downloaded, and their sums are checked where the tree itself is built. With -trimpath what is
// built once stays in the build cache, wherever the modules are.
func newOutsider(t *testing.T, bare string, all []*mod) *outsider {
	t.Helper()
	theirs, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	host, owner, _ := strings.Cut(path.Dir(all[0].path), "/")
	cache := t.TempDir()
	for _, dir := range []string{".", "cache/download"} {
		from, to := filepath.Join(strings.TrimSpace(string(theirs)), dir), filepath.Join(cache, dir)
		link(t, from, to, "cache", host)
		link(t, filepath.Join(from, host), filepath.Join(to, host), owner)
	}
	return &outsider{append(os.Environ(), "GOMODCACHE="+cache, "GOBIN="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath -ldflags=-s", "GOWORK=off", "GOENV=off",
		"GOSUMDB=off", "GOPRIVATE="+all[0].path, "GONOPROXY=", "GIT_ALLOW_PROTOCOL=file:https", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url."+bare+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+all[0].path), all}
}

// link makes a directory with links to what another one has, except some names.
func link(t *testing.T, from, to string, except ...string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains(except, e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
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
	list := o.run(t, dir, "list", "-mod=mod", "-f", "{{.Name}} {{.ImportPath}} {{len .GoFiles}}", m.path+"/...")
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

// git runs git, as somebody at a fixed time: the same tree makes the same commit, and what was
// built of it stays in the build cache.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsync", "GIT_CONFIG_VALUE_0=none", "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// published is a bare repository with the tree as it is now, on branch main.
func published(t *testing.T, root string) (bare string) {
	t.Helper()
	bare = filepath.Join(t.TempDir(), "bare.git")
	git(t, root, "init", "-q", "--bare", "-b", untagged, bare)
	git(t, root, "--git-dir", bare, "--work-tree", root, "add", "-A")
	git(t, root, "--git-dir", bare, "--work-tree", root, "commit", "-q", "-m", "tree")
	return bare
}

// tag makes the release in a clone as CONTRIBUTING.md says, beside main, and pushes its tags.
func tag(t *testing.T, bare string) {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "clone", "-q", bare, ".")
	git(t, dir, "switch", "-q", "--detach")
	tags, err := release(dir, version)
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "-a", "-m", "release "+version)
	for _, tag := range tags {
		git(t, dir, "tag", tag)
	}
	git(t, dir, append([]string{"push", "-q", "origin"}, tags...)...)
}

// A module required the main one at v0.0.0, which is above every version of a tree without tags: the
// go command of an outsider found neither, alone or both at once.
func TestAnOutsiderGetsEveryModule(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("the go command needs git to get a module from its repository")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	all, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	bare := published(t, root)
	o := newOutsider(t, bare, all)
	t.Run("before the first release", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.dir, func(t *testing.T) {
				if strings.HasPrefix(m.dir, "cmd/") {
					o.clones(t, bare, m)
					return
				}
				o.uses(t, m, untagged, o.told(t, root, m))
			})
		}
	})
	tag(t, bare)
	t.Run("of a release", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.dir, func(t *testing.T) { o.uses(t, m, version, []string{m.path + "@" + version}) })
		}
	})
}

// told is what the README of a module has its users get: the main module in the same line, since no
// version of that is required before there is one.
func (o *outsider) told(t *testing.T, root string, m *mod) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.dir), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^go (?:get|install) (.+)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("the README has no line with go get")
	}
	return strings.Fields(string(line[1]))
}

// uses gets modules at a version, writes a program with all packages of m, and builds and runs it.
func (o *outsider) uses(t *testing.T, m *mod, at string, get []string) {
	dir := t.TempDir()
	o.run(t, dir, "mod", "init", "example.com/outsider")
	o.run(t, dir, append([]string{"get"}, get...)...)
	libraries, commands := o.packages(t, dir, m)
	if len(libraries)+len(commands) == 0 {
		t.Fatal("the module has nothing for others")
	}
	whole := os.Getenv(runEnv) != ""
	if m != o.all[0] { // each command of the main module would link the engine
		for _, path := range commands {
			o.installs(t, dir, path+"@"+at, whole || !strings.HasPrefix(m.dir, "cmd/"))
		}
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(program(libraries, ""))
	engine := o.builtWith(t, dir, at, commands)
	if engine {
		write(program(libraries, o.all[0].path))
	}
	if whole {
		o.run(t, dir, "mod", "tidy")
	}
	if engine && !whole {
		return // all of it was found, and the tree itself is built elsewhere
	}
	if said := o.run(t, dir, "run", "-mod=mod", "."); said != "true\n" {
		t.Errorf("the program says %q", said)
	}
}

// installs installs a command. One that links the engine is planned alone, unless the test is whole:
// what go install refuses it refuses then.
func (o *outsider) installs(t *testing.T, dir, path string, links bool) {
	t.Helper()
	args := []string{"install", "-n", path}
	if links {
		args = []string{"install", path}
	}
	o.run(t, dir, args...)
}

// clones installs the commands of a module from a clone: go install refuses its replace directive for
// the main module, which only a release is without.
func (o *outsider) clones(t *testing.T, bare string, m *mod) {
	dir := t.TempDir()
	git(t, dir, "clone", "-q", bare, ".")
	o.installs(t, filepath.Join(dir, filepath.FromSlash(m.dir)), ".", os.Getenv(runEnv) != "")
}

// builtWith finds all packages that a program and commands need, refuses those of ours that are not
// of the version, and reports whether the engine is among them.
func (o *outsider) builtWith(t *testing.T, dir, at string, commands []string) (engine bool) {
	t.Helper()
	list := []string{"list", "-mod=mod", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{with .Replace}} => {{.Path}}{{end}}{{end}}", "."}
	for line := range strings.Lines(o.run(t, dir, append(list, commands...)...)) {
		path, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		ours := path == o.all[0].path || strings.HasPrefix(path, o.all[0].path+"/")
		if ours && at != untagged && rest != at || strings.Contains(rest, "=>") {
			t.Errorf("the program is built with %s %s", path, rest)
		}
		engine = engine || strings.Contains(path, "/dragonboat/")
	}
	return engine
}

// program imports libraries and says that all is well: with the main module it holds a lock first.
func program(libraries []string, main string) string {
	var imports strings.Builder
	for _, path := range libraries {
		if path != main {
			fmt.Fprintf(&imports, "\t_ %q\n", path)
		}
	}
	if main == "" {
		return "package main\n\nimport (\n\t\"fmt\"\n\n" + imports.String() + ")\n\nfunc main() { fmt.Println(true) }\n"
	}
	return "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"" + main + "\"\n" + imports.String() + `)

func main() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	l, err := c.Acquire(ctx, "lock")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Valid())
}
`
}
