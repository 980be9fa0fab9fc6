package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// errAbsent says that a program is not on this machine and cannot be had.
var errAbsent = errors.New("not on this machine")

// store is where the programs of the peers come from: this machine, its packages, or the module
// proxy.
type store struct {
	cache   string // what was built is kept there for the next run
	dir     string // for what is temporary
	install bool   // whether to build, and to install packages
	tell    func(format string, args ...any)
	updated bool // apt-get has its lists
}

// installed finds what a package of Debian has. Root installs the package if it is missing.
func (s *store) installed(
	ctx context.Context, name string, places []string, pkg string,
) (string, error) {
	if path, err := servers.Find(name, places...); err == nil {
		return path, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 || !s.install {
		return "", fmt.Errorf("%s is %w: install %s", name, errAbsent, pkg)
	}
	s.tell("installing %s", pkg)
	steps := [][]string{{"install", "-y", "-q", "--no-install-recommends", pkg}}
	if !s.updated {
		steps = append([][]string{{"update", "-q"}}, steps...)
	}
	for _, args := range steps {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if err := run(ctx, cmd, s.dir); err != nil {
			return "", fmt.Errorf("%s cannot be installed: %w", pkg, err)
		}
	}
	s.updated = true
	if path, err := servers.Find(name, places...); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is %w, though %s is installed", name, errAbsent, pkg)
}

// built builds the main package of a module from the module proxy, and keeps it. It builds in a
// module made for that, as `go install` refuses modules with replace directives such as etcd's.
func (s *store) built(ctx context.Context, name, module, version string) (string, error) {
	program := filepath.Join(s.cache, name+"-"+version)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if !s.install {
		return "", fmt.Errorf("%s %s is %w, and nothing is to be built", name, version, errAbsent)
	}
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(s.dir, name+"-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	s.tell("building %s %s, which takes some minutes the first time", name, version)
	for _, args := range [][]string{
		{"mod", "init", "build"},
		{"get", module + "@" + version},
		{"build", "-mod=mod", "-o", program + ".new", module},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env, cmd.Dir = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0"), dir
		if err := run(ctx, cmd, s.dir); err != nil {
			return "", fmt.Errorf("%s cannot be built: %w", name, err)
		}
	}
	return program, os.Rename(program+".new", program)
}
