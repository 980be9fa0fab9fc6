// Command mutants breaks Holdfast on purpose, one function at a time, in a copy of the tree, and
// asks whether the tests notice. It prints a table: what was broken, and which suite caught it. A
// mutant that lives shows a hole in the tests, or a line that is not needed.
//
//	go run ./sim/cmd/mutants                 all of them, each until a suite catches it
//	go run ./sim/cmd/mutants -all            and all suites of each, to see which would have caught it
//	go run ./sim/cmd/mutants -suites model   by the model alone
//	go run ./sim/cmd/mutants -only token     those whose name or function contains a word
//
// The exit status is 1 if a mutant lives, or no longer fits the source.
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

type mutant struct {
	name     string // what is broken, in words
	function string // its name, or "Type.Method", in whatever file and package it is
	old, new string
	suites   string // that must catch it, cheapest first: one of them is enough; see tree.suite
}

// patience is how long a suite may take: a mutant that hangs is caught, too.
const patience = 10 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "run those whose name or function contains one of these; with commas")
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
	t, err := readTree(dir)
	if err != nil {
		return err
	}
	var wrong []string
	total, began := 0, time.Now()
	fmt.Println("| what is broken | function | caught by | s |\n|---|---|---|---|")
	for _, m := range mutants() {
		names := strings.Fields(m.suites)
		if *suites != "" {
			names = slices.DeleteFunc(names, func(s string) bool { return !slices.Contains(strings.Split(*suites, ","), s) })
		}
		if len(names) == 0 || !m.has(*only) {
			continue
		}
		total++
		from := time.Now()
		caught, err := t.try(m, names, *all)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", m.name, err))
			caught = []string{"**" + err.Error() + "**"}
		case len(caught) == 0:
			wrong = append(wrong, m.name+": lives")
			caught = []string{"**nobody**"}
		}
		fmt.Printf("| %s | %s | %s | %.0f |\n", m.name, m.function, strings.Join(caught, ", "), time.Since(from).Seconds())
	}
	fmt.Printf("\n%d mutants in %v, %d not caught\n", total, time.Since(began).Round(time.Second), len(wrong))
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

func (m mutant) has(words string) bool {
	return slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return strings.Contains(m.name+" "+m.function, w) })
}

func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
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

// try breaks the copy, runs the suites, mends the copy, and returns who noticed.
func (t *tree) try(m mutant, suites []string, all bool) (caught []string, err error) {
	file, before, after, err := t.apply(m)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(t.root, file)
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, []byte(before), 0o644)) }()
	for _, name := range suites {
		args, err := t.suite(name, file)
		if err != nil {
			return nil, err
		}
		out, err := command(t.root, args...)
		switch {
		case err == nil:
			continue
		case bytes.HasPrefix(out, []byte("# ")), bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
			return nil, fmt.Errorf("%s does not build: %s", name, out[:min(len(out), 300)])
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

func command(dir string, args ...string) ([]byte, error) {
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
