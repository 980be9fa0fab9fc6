package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	fileLinesMax = 500
	funcLinesMax = 70
)

// source is one Go file of the repository, whatever module it is in.
type source struct {
	path string // from the root, with slashes
	text []byte
	file *ast.File
	set  *token.FileSet
}

func parse(name string, text []byte) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{name, text, file, set}, err
}

func (s *source) dir() string              { return path.Dir(s.path) }
func (s *source) isTest() bool             { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) line(at token.Pos) int    { return s.set.Position(at).Line }
func (s *source) at(at token.Pos) string   { return fmt.Sprintf("%s:%d", s.path, s.line(at)) }
func (s *source) imports(path string) bool { return s.name(path) != "" }

// name is what the file calls an import; "" if it does not import it.
func (s *source) name(path string) string {
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == path {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

// uses returns the places where the file names one of some members of an imported package.
func (s *source) uses(path string, members ...string) (at []token.Pos) {
	name := s.name(path)
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(members, sel.Sel.Name) {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				at = append(at, sel.Pos())
			}
		}
		return true
	})
	return at
}

// parsed is sources, read once for all tests.
var parsed = sync.OnceValues(parseAll)

// sources reads every Go file below the root that people write.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parseAll() (all []*source, err error) {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	err = readTree(dir, ".go", func(name string, text []byte) error {
		s, err := parse(name, text)
		if err == nil && !ast.IsGenerated(s.file) {
			all = append(all, s)
		}
		return err
	})
	return all, err
}

// readTree reads the files below a directory whose names end so, but for test data, other people's
// and hidden ones.
func readTree(dir, suffix string, read func(name string, text []byte) error) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor" || name != dir && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, suffix):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name, err = filepath.Rel(dir, name); err != nil {
			return err
		}
		return read(filepath.ToSlash(name), text)
	})
}

// declared are what a file declares as var or as const at its top.
func declared(f *ast.File, what token.Token) (specs []*ast.ValueSpec) {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == what {
			for _, spec := range g.Specs {
				specs = append(specs, spec.(*ast.ValueSpec))
			}
		}
	}
	return specs
}

// sourceRule looks at one file and returns the lines that break it.
type sourceRule struct {
	name, reason string
	find         func(*source) []int
	badPath, bad string // a file that breaks it
}

func sourceRules() []sourceRule {
	return []sourceRule{{
		fmt.Sprintf("a file has at most %d lines", fileLinesMax),
		"a stranger reads a file at one sitting",
		longFile, "a.go", "package a\n" + strings.Repeat("\n", fileLinesMax),
	}, {
		fmt.Sprintf("a function has at most %d lines", funcLinesMax),
		"a function fits a screen",
		longFuncs, "a.go", "package a\nfunc f() {\n" + strings.Repeat("\n", funcLinesMax) + "}\n",
	}, {
		"exported names have a doc comment",
		"the comment is the contract: what, units, errors, what cancellation does",
		undocumented, "a.go", "package a\nfunc Exported() {}\n",
	}, {
		"nothing is left to do",
		"a comment nobody works on misleads; open an issue",
		leftovers, "a.go", "package a // TO" + "DO: finish\n",
	}, {
		"the passive packages never ask for the time",
		"time is an argument there: no clock in the log, and every run can be replayed",
		passiveClocks, "fsm/a.go", "package fsm\nimport \"time\"\nvar errAt = time.Now\n",
	}, {
		"the passive packages start no goroutine",
		"the order of goroutines is not in the log",
		passiveGoroutines, "internal/session/a.go", "package session\nfunc f() { go f() }\n",
	}, {
		"package-level variables are errors",
		"state of a package is shared by all the nodes of a process, and by tests that run side by side",
		globals, "a.go", "package a\nvar cache map[string]int\n",
	}, {
		"there is no init",
		"importing a library must do nothing",
		inits, "a.go", "package a\nfunc init() {}\n",
	}, {
		"files and packages are named for what they hold",
		"a drawer for everything is a home for nothing",
		drawers, "internal/util/a.go", "package util\n",
	}}
}

func TestSourceKeepsTheRules(t *testing.T) {
	t.Parallel()
	all := sources(t)
	for _, rule := range sourceRules() {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			bad, err := parse(rule.badPath, []byte(rule.bad))
			if err != nil || len(rule.find(bad)) == 0 {
				t.Errorf("the rule does not see its own example (%v)", err)
			}
			for _, s := range all {
				for _, line := range rule.find(s) {
					t.Errorf("%s:%d. The reason: %s", s.path, line, rule.reason)
				}
			}
		})
	}
}

func longFile(s *source) []int {
	if n := bytes.Count(s.text, []byte{'\n'}); n > fileLinesMax {
		return []int{n}
	}
	return nil
}

func longFuncs(s *source) (lines []int) {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && s.line(f.End())-s.line(f.Pos())+1 > funcLinesMax {
			lines = append(lines, s.line(f.Pos()))
		}
	}
	return lines
}

func leftovers(s *source) (lines []int) {
	mark := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if mark.MatchString(c.Text) {
				lines = append(lines, s.line(c.Pos()))
			}
		}
	}
	return lines
}

func passiveClocks(s *source) (lines []int) {
	if !passive(s.dir()) || s.isTest() {
		return nil
	}
	for _, at := range s.uses("time", "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep") {
		lines = append(lines, s.line(at))
	}
	return lines
}

func passiveGoroutines(s *source) (lines []int) {
	if !passive(s.dir()) || s.isTest() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			lines = append(lines, s.line(g.Pos()))
		}
		return true
	})
	return lines
}

func globals(s *source) (lines []int) {
	exempt := map[string]string{ // by name: the package that may have it
		"opened":            "internal/datadir",   // which directories the process has open is a fact about the process
		"process":           "internal/consensus", // dragonboat has one logger for the whole process
		"writeTaskPool":     "internal/consensus", // pebble's, linked by name
		"entrySliceSize":    "internal/consensus", // dragonboat's, linked by name
		"minEntrySliceSize": "internal/consensus", // the same
		"assets":            "httpstatus",         // the compiler fills it from files
		"guard":             "internal/consensus", // from one init to the next
		"kept":              "internal/consensus", // the same
	}
	if s.isTest() {
		return nil
	}
	for _, spec := range declared(s.file, token.VAR) {
		for _, name := range spec.Names {
			isError := strings.HasPrefix(name.Name, "Err") || strings.HasPrefix(name.Name, "err")
			if !isError && name.Name != "_" && (exempt[name.Name] == "" || !within(s.dir(), exempt[name.Name])) {
				lines = append(lines, s.line(name.Pos()))
			}
		}
	}
	return lines
}

func inits(s *source) (lines []int) {
	// dragonboat's import replaces the standard logger of the program and reads files: preinit
	// undoes that. One of its variables is set before anything runs.
	if within(s.dir(), "internal/consensus/preinit") {
		return nil
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			lines = append(lines, s.line(f.Pos()))
		}
	}
	return lines
}

func drawers(s *source) []int {
	drawer := regexp.MustCompile(`^(.*[._-])?(utils?|common|helpers?|misc)([._-].*)?$`)
	if drawer.MatchString(path.Base(s.dir())) || drawer.MatchString(strings.TrimSuffix(path.Base(s.path), ".go")) {
		return []int{1}
	}
	return nil
}
