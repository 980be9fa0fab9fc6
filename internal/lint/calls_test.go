package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// public finds the exported functions, methods, values and fields of the root and of package fence.
func public(all []*source) (calls, names map[string]bool) {
	calls, names = make(map[string]bool), make(map[string]bool)
	for _, s := range all {
		if s.isTest() || s.dir() != "." && s.dir() != "fence" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = n.Name.IsExported()
				ofCluster := n.Recv != nil && receiver(n).Name == "Cluster"
				if s.dir() == "." && n.Name.IsExported() && (ofCluster || n.Recv == nil) {
					calls[n.Name.Name] = true
				}
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = n.Name.IsExported()
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = name.IsExported()
				}
			case *ast.Field:
				for _, name := range n.Names {
					names[name.Name] = name.IsExported()
				}
			case *ast.GenDecl:
				return n.Tok != token.IMPORT
			}
			return true
		})
	}
	return calls, names
}

// Nobody finds a call that no document names.
func TestEveryCallHasItsPlaceInTheDocuments(t *testing.T) {
	t.Parallel()
	calls, _ := public(sources(t))
	if len(calls) < 30 {
		t.Fatalf("only %d calls were found", len(calls))
	}
	var told strings.Builder
	for _, name := range []string{"guarantees.md", "choosing.md", "operations.md"} {
		text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	for call := range calls {
		if !regexp.MustCompile("`[^`]*\\b" + call + "\\b[^`]*`").MatchString(told.String()) {
			t.Errorf("docs/guarantees.md, docs/choosing.md and docs/operations.md do not name %s: give it its place in one of them", call)
		}
	}
}

// What looks like an option or an error in a document is one.
func TestEveryOptionAndErrorThatADocumentNamesExists(t *testing.T) {
	t.Parallel()
	_, names := public(sources(t))
	word := regexp.MustCompile(`\b(With|Err)[A-Z]\w+`)
	foreign := regexp.MustCompile(`\b[a-z]\w*\.(With|Err)[A-Z]\w+`) // of other packages, in code before a migration
	for _, d := range documents(t) {
		for i, line := range d.lines {
			for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(line, -1) {
				span = foreign.ReplaceAllStringFunc(span, func(s string) string {
					if strings.HasPrefix(s, "holdfast.") || strings.HasPrefix(s, "fence.") {
						return s
					}
					return ""
				})
				for _, name := range word.FindAllString(span, -1) {
					if !names[name] && !ofOthers(name) {
						t.Errorf("%s:%d: there is no %s", d.path, i+1, name)
					}
				}
			}
		}
	}
}

// ofOthers are names of other libraries, in docs/migrating.md.
func ofOthers(name string) bool {
	switch name {
	case "ErrTaken", "ErrLocked", "ErrElectionNoLeader":
		return true
	}
	return false
}
