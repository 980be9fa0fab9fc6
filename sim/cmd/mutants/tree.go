package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tree is the module's source, as far as mutants are about it: where its functions are, by name
// ("Type.Method"), and its tests, by directory. So nobody who moves a file looks at a mutant.
type tree struct {
	root      string
	functions map[string][]function
	tests     map[string][]string
}

type function struct {
	file     string // from the root
	from, to int
}

func readTree(root string) (*tree, error) {
	t := &tree{root, make(map[string][]function), make(map[string][]string)}
	tests := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w+)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, module := os.Stat(filepath.Join(path, "go.mod"))
			if rel != "." && (module == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			for _, m := range tests.FindAllSubmatch(text, -1) {
				t.tests[filepath.Dir(rel)] = append(t.tests[filepath.Dir(rel)], string(m[1]))
			}
			return nil
		case strings.HasPrefix(rel, "sim"+string(filepath.Separator)):
			return nil // no product
		}
		return t.declare(rel, text)
	})
	return t, err
}

func (t *tree) declare(file string, text []byte) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if generic, ok := of.(*ast.IndexExpr); ok {
				of = generic.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		t.functions[name] = append(t.functions[name], function{file, set.Position(f.Pos()).Offset, set.Position(f.End()).Offset})
	}
	return nil
}

// apply returns the file of a mutant's function, and its text before and after. The old text must
// stand once in one function of the name.
func (t *tree) apply(m mutant) (file, before, after string, err error) {
	found := 0
	for _, f := range t.functions[m.function] {
		text, err := os.ReadFile(filepath.Join(t.root, f.file))
		if err != nil {
			return "", "", "", err
		}
		body := string(text[f.from:f.to])
		if n := strings.Count(body+"\n", m.old); n > 0 {
			found += n
			file, before = f.file, string(text)
			after = before[:f.from] + strings.Replace(body+"\n", m.old, m.new, 1) + strings.TrimPrefix(before[f.to:], "\n")
		}
	}
	if found != 1 {
		return "", "", "", fmt.Errorf("its old text stands %d times in functions called %s: it no longer fits", found, m.function)
	}
	return file, before, after, nil
}

// suite is the command of a suite of a mutant in a file: "model" is the seeded model, "own" the
// tests of the file's package, anything else a pattern of tests, wherever they are.
func (t *tree) suite(name, file string) (args []string, err error) {
	test := []string{"go", "test", "-short", "-ldflags=-s -w", "-timeout", "9m"}
	switch name {
	case "model":
		return []string{"go", "run", "./sim/cmd/seeds", "-seed", "1", "-n", "150", "-shrink", "0"}, nil
	case "own":
		return append(test, "./"+filepath.ToSlash(filepath.Dir(file))), nil
	}
	pattern, err := regexp.Compile(name)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for dir, tests := range t.tests {
		if slices.ContainsFunc(tests, pattern.MatchString) {
			dirs = append(dirs, "./"+filepath.ToSlash(dir))
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no test is called %s", name)
	}
	slices.Sort(dirs)
	return append(append(test, "-run", name), dirs...), nil
}
