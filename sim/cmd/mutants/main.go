// Command mutants breaks Holdfast on purpose, one line at a time, in a copy of the tree, and asks
// whether the tests notice. It prints a table: what was broken, and which suite caught it. A mutant
// that lives shows a hole in the tests, or a line that is not needed.
//
//	go run ./sim/cmd/mutants                 all of them, each until a suite catches it
//	go run ./sim/cmd/mutants -all            and all suites of each, to see which would have caught it
//	go run ./sim/cmd/mutants -suites model   by the model alone
//	go run ./sim/cmd/mutants -only token     those whose name or file contains a word
//
// The exit status is 1 if a mutant lives, or no longer fits the source: its old text must stand
// there once.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is one defect: a piece of a file that is replaced by another.
type mutant struct {
	name     string // what is broken, in words
	file     string
	old, new string
	suites   []string // that must catch it, cheapest first: one of them is enough
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "run those whose name or file contains one of these; with commas")
	but := flag.String("not", "", "leave out those whose name or file contains one of these")
	all := flag.Bool("all", false, "run every suite of a mutant, also after one caught it")
	suites := flag.String("suites", "", "run these suites alone, of those that a mutant names; with commas")
	root := flag.String("root", ".", "the module's directory")
	flag.Parse()

	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir, *root); err != nil {
		return err
	}
	var wrong []string
	total, began := 0, time.Now()
	fmt.Println("| what is broken | where | caught by | s |\n|---|---|---|---|")
	for _, m := range mutants() {
		if *only != "" && !m.has(*only) || *but != "" && m.has(*but) {
			continue
		}
		if *suites != "" {
			m.suites = slices.DeleteFunc(slices.Clone(m.suites), func(s string) bool { return !slices.Contains(strings.Split(*suites, ","), s) })
			if len(m.suites) == 0 {
				continue
			}
		}
		total++
		from := time.Now()
		caught, err := m.try(dir, *all)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", m.name, err))
			caught = []string{"**" + err.Error() + "**"}
		case len(caught) == 0:
			wrong = append(wrong, m.name+": lives")
			caught = []string{"**nobody**"}
		}
		fmt.Printf("| %s | %s | %s | %.0f |\n", m.name, m.file, strings.Join(caught, ", "), time.Since(from).Seconds())
	}
	fmt.Printf("\n%d mutants in %v, %d not caught\n", total, time.Since(began).Round(time.Second), len(wrong))
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// has says whether name or file contain one of the words, which have commas between them.
func (m *mutant) has(words string) bool {
	return slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return strings.Contains(m.name+" "+m.file, w) })
}

// copyTree copies what git would: everything but the repository itself.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

// apply returns the mutated source.
func (m *mutant) apply(source string) (string, error) {
	if n := strings.Count(source, m.old); n != 1 {
		return "", fmt.Errorf("its old text stands %d times in %s: it no longer fits", n, m.file)
	}
	return strings.Replace(source, m.old, m.new, 1), nil
}

// try breaks the copy, runs the suites, mends the copy, and returns who noticed.
func (m *mutant) try(dir string, all bool) (caught []string, err error) {
	path := filepath.Join(dir, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	broken, err := m.apply(string(source))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(broken), 0o644); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, source, 0o644)) }()
	for _, name := range m.suites {
		args, patience := suite(name)
		out, err := command(dir, patience, args...)
		switch {
		case err == nil:
			continue
		case bytes.HasPrefix(out, []byte("# ")), bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
			return nil, fmt.Errorf("%s does not build: %s", name, firstLine(out))
		case errors.Is(err, context.DeadlineExceeded):
			name += " (hangs)"
		}
		caught = append(caught, name)
		if !all {
			break
		}
	}
	return caught, nil
}

// suite is the command of a suite, and how long it may take: a mutant that hangs is caught, too. A
// name is "model", "small" (the exhaustive exploration), or a package directory ("root" is the
// root) and, after a colon, a pattern of its tests.
func suite(name string) (args []string, patience time.Duration) {
	const limit = 10 * time.Minute
	pkg, tests, _ := strings.Cut(name, ":")
	switch {
	case name == "model":
		return []string{"go", "run", "./sim/cmd/seeds", "-seed", "1", "-n", "150", "-shrink", "0"}, limit
	case name == "small":
		return []string{"go", "test", "-short", "-run", "EveryHistory", "./sim/internal/model"}, limit
	case pkg == "root":
		pkg = "."
	}
	return []string{"go", "test", "-short", "-ldflags=-s -w", "-timeout", "9m", "-run", tests, "./" + pkg}, limit
}

func command(dir string, patience time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

func firstLine(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
