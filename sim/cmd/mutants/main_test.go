package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mutant whose text is gone tests nothing any more: whoever changes the line moves the mutant
// along.
func TestEveryMutantFitsTheSource(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range mutants() {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if broken, err := m.apply(string(source)); err != nil || broken == string(source) {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || len(m.suites) == 0 {
			t.Errorf("%s: twice, or without a suite", m.name)
		}
		names[m.name] = true
	}
	if len(names) < 40 {
		t.Errorf("%d mutants, at least forty wanted", len(names))
	}
}

// A suite that runs no test catches nothing, and go test passes it: whoever moves or renames a test
// moves the suite along.
func TestEverySuiteNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := make(map[string][]string) // by package
	for _, m := range mutants() {
		for _, name := range m.suites {
			args, _ := suite(name)
			if args[1] != "test" {
				continue
			}
			dir := args[len(args)-1]
			if tests[dir] == nil {
				tests[dir] = testsOf(t, dir)
			}
			if len(tests[dir]) == 0 {
				t.Errorf("%s: %s has no tests", m.name, dir)
			}
			for pattern := range strings.SplitSeq(args[slices.Index(args, "-run")+1], "|") {
				if !slices.ContainsFunc(tests[dir], regexp.MustCompile(pattern).MatchString) {
					t.Errorf("%s: %s has no test %q", m.name, dir, pattern)
				}
			}
		}
	}
	if len(tests) < 5 {
		t.Errorf("suites of %d packages, at least five wanted", len(tests))
	}
}

// testsOf are the names of the tests, examples and fuzz targets of a package.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && regexp.MustCompile("^(Test|Example|Fuzz)").MatchString(f.Name.Name) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
