package lint

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// undocumented finds exported names without a doc comment. A group's comment covers what stands in
// it; what a method like Error does is said by the standard library.
func undocumented(s *source) (lines []int) {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc != nil {
				return
			}
		}
		if name.IsExported() {
			lines = append(lines, s.line(name.Pos()))
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			known := slices.Contains([]string{"Error", "String", "Unwrap", "Is", "As"}, d.Name.Name)
			if d.Recv == nil || receiver(d).IsExported() && !known {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name, spec.Doc, spec.Comment, d.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return lines
}

// receiver is the name of the type that a method is of.
func receiver(f *ast.FuncDecl) *ast.Ident {
	for t := f.Recv.List[0].Type; ; {
		switch x := t.(type) {
		case *ast.Ident:
			return x
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		default:
			return ast.NewIdent("_")
		}
	}
}

// byDir groups the files of each directory.
func byDir(all []*source) map[string][]*source {
	dirs := make(map[string][]*source)
	for _, s := range all {
		dirs[s.dir()] = append(dirs[s.dir()], s)
	}
	return dirs
}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for dir, files := range byDir(sources(t)) {
		comments, production := 0, false
		for _, s := range files {
			if s.isTest() {
				continue
			}
			production = true
			if s.file.Doc != nil {
				comments++
			}
		}
		if production && comments != 1 {
			t.Errorf("%s has %d package comments: a package has one, where its reader begins", dir, comments)
		}
	}
}

// A library inside other people's processes must end what it starts.
func TestEveryPackageThatStartsGoroutinesLooksForLeaks(t *testing.T) {
	t.Parallel()
	for dir, files := range byDir(sources(t)) {
		var starts token.Pos
		var where *source
		tested, looks := false, false
		for _, s := range files {
			if s.isTest() {
				tested = true
				looks = looks || bytes.Contains(s.text, []byte("goleak."))
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok && s.file.Name.Name != "main" {
					starts, where = g.Pos(), s
				}
				return true
			})
		}
		if where != nil && tested && !looks {
			t.Errorf("%s starts a goroutine (%s:%d), but no test of it uses goleak in TestMain", dir, where.path, where.line(starts))
		}
	}
}

// listed are the files that a package comment with a list of files names; nil: it has no list.
func listed(doc *source) []string {
	if doc.file.Doc == nil || doc.isTest() {
		return nil
	}
	text := doc.file.Doc.Text()
	if !strings.Contains(text, ".go ") || !regexp.MustCompile(`(?m)^\t[a-z_]+\.go\b`).MatchString(text) {
		return nil
	}
	return append(regexp.MustCompile(`\b[a-z_]+\.go\b`).FindAllString(text, -1), "doc.go", path.Base(doc.path))
}

// A reader looks for the subject of a file in the list.
func TestAListOfFilesInAPackageCommentIsComplete(t *testing.T) {
	t.Parallel()
	lists := make(map[string][]string) // by directory
	for _, s := range sources(t) {
		if names := listed(s); names != nil {
			lists[s.dir()] = names
		}
	}
	if len(lists) == 0 {
		t.Error("no package comment has a list of files")
	}
	for _, s := range sources(t) {
		names, has := lists[s.dir()]
		if has && !s.isTest() && !slices.Contains(names, path.Base(s.path)) {
			t.Errorf("the list of files in the package comment leaves out %s", s.path)
		}
	}
}
