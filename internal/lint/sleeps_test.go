package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// What waits for real time is found by who calls whom: a helper that sleeps may be used in a
// bubble, where that takes no time, and in a plain test. So the files of a package are looked at
// together. Functions and methods go by their names alone: of two that have one, both count. Where
// that cannot tell, the line or the function's comment says "virtual"; and where real time is what
// a test is about, it says "real time:" and why.

// waiting is what a function does outside of every bubble.
type waiting struct {
	file   *source
	sleeps []token.Pos     // waits for time itself, not for an event with a time limit
	calls  map[string]bool // functions that it names
}

// realWaits finds the places in a package's tests that wait for real time to pass, as "file:line".
func realWaits(files []*source) (places []string) {
	var tests []*source
	for _, s := range files {
		if s.isTest() {
			tests = append(tests, s)
		}
	}
	entries, inBubble := bubbleEntries(tests), simTypes(tests)
	functions := make(map[string][]*waiting)
	var reached []string
	for _, s := range tests {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || takesSim(f.Type.Params, inBubble) || f.Recv != nil && takesSim(f.Recv, inBubble) || explained(f.Doc) {
				continue
			}
			w := outside(s, f.Body, entries, inBubble)
			functions[f.Name.Name] = append(functions[f.Name.Name], w)
			if f.Recv == nil && isTestName(f.Name.Name) {
				reached = append(reached, f.Name.Name)
			}
		}
	}
	seen := make(map[string]bool)
	for len(reached) > 0 {
		name := reached[0]
		reached = reached[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, w := range functions[name] {
			for _, at := range w.sleeps {
				if !w.file.explains(at) {
					places = append(places, w.file.at(at))
				}
			}
			for call := range w.calls {
				reached = append(reached, call)
			}
		}
	}
	slices.Sort(places)
	return places
}

func isTestName(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// bubbleEntries are the functions that run what they are given in a bubble: synctest.Test, those of
// package sim, and those of the tests that call one of these.
func bubbleEntries(tests []*source) map[string]bool {
	entries := make(map[string]bool)
	for grown := true; grown; {
		grown = false
		for _, s := range tests {
			for _, d := range s.file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil || entries[f.Name.Name] || isTestName(f.Name.Name) || !takesFunc(f.Type) {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && isEntry(s, call, entries) {
						entries[f.Name.Name], grown = true, true
					}
					return true
				})
			}
		}
	}
	return entries
}

// isEntry reports whether a call runs what it is given in a bubble.
func isEntry(s *source, call *ast.CallExpr, entries map[string]bool) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return entries[f.Name]
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if !ok {
			return entries[f.Sel.Name]
		}
		return s.imports("testing/synctest") && x.Name == s.name("testing/synctest") && f.Sel.Name == "Test" ||
			s.imports(module+"/sim") && x.Name == s.name(module+"/sim") && (f.Sel.Name == "Run" || f.Sel.Name == "Seeds") ||
			entries[f.Sel.Name]
	}
	return false
}

// outside collects what a function does outside of bubbles.
func outside(s *source, body ast.Node, entries, inBubble map[string]bool) *waiting {
	w := &waiting{file: s, calls: make(map[string]bool)}
	limits := make(map[ast.Stmt]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return !takesSim(n.Type.Params, inBubble)
		case *ast.CallExpr:
			if isEntry(s, n, entries) {
				return false
			}
			if s.isOf(n.Fun, "time", "Sleep", "Tick") {
				w.sleeps = append(w.sleeps, n.Pos())
			}
			for _, x := range append([]ast.Expr{n.Fun}, n.Args...) {
				w.name(x)
			}
		case *ast.KeyValueExpr:
			w.name(n.Value)
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				limits[clause.(*ast.CommClause).Comm] = true
			}
		case *ast.ExprStmt: // <-time.After(d) alone; in a select it is a limit
			if limits[n] {
				return true
			}
			if u, ok := n.X.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
				if call, ok := u.X.(*ast.CallExpr); ok && s.isOf(call.Fun, "time", "After") {
					w.sleeps = append(w.sleeps, n.Pos())
				}
			}
		}
		return true
	})
	return w
}

// name notes a function that is called, given to another, or kept in a field.
func (w *waiting) name(x ast.Expr) {
	switch x := x.(type) {
	case *ast.Ident:
		w.calls[x.Name] = true
	case *ast.SelectorExpr:
		w.calls[x.Sel.Name] = true
	}
}

// isOf reports whether an expression is one of some members of an imported package.
func (s *source) isOf(x ast.Expr, path string, members ...string) bool {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok || !s.imports(path) || !slices.Contains(members, sel.Sel.Name) {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == s.name(path)
}

// explained reports whether a comment says that time is virtual, or why it is not.
func explained(comment *ast.CommentGroup) bool {
	return comment != nil && (strings.Contains(comment.Text(), "virtual") || strings.Contains(comment.Text(), "real time: "))
}

// explains is explained for the comment on the line of a place.
func (s *source) explains(at token.Pos) bool {
	return slices.ContainsFunc(s.file.Comments, func(c *ast.CommentGroup) bool { return s.line(c.Pos()) == s.line(at) && explained(c) })
}

// simTypes are the structs of a package that have a field of package sim, or of such a struct.
func simTypes(tests []*source) map[string]bool {
	types := make(map[string]bool)
	for grown := true; grown; {
		grown = false
		for _, s := range tests {
			ast.Inspect(s.file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || types[spec.Name.Name] {
					return true
				}
				if st, ok := spec.Type.(*ast.StructType); ok && takesSim(st.Fields, types) {
					types[spec.Name.Name], grown = true, true
				}
				return true
			})
		}
	}
	return types
}

// takesSim reports whether one of some parameters or fields is a sim.Sim or a sim.Node, or a struct
// that has one: what has one is in a bubble.
func takesSim(fields *ast.FieldList, types map[string]bool) bool {
	return slices.ContainsFunc(fields.List, func(f *ast.Field) bool {
		x := f.Type
		if star, ok := x.(*ast.StarExpr); ok {
			x = star.X
		}
		switch x := x.(type) {
		case *ast.Ident:
			return types[x.Name]
		case *ast.SelectorExpr:
			of, ok := x.X.(*ast.Ident)
			return ok && of.Name == "sim" && (x.Sel.Name == "Sim" || x.Sel.Name == "Node")
		}
		return false
	})
}

// takesFunc reports whether a function has a parameter that is one.
func takesFunc(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool { _, ok := p.Type.(*ast.FuncType); return ok })
}

func TestTestsDoNotWaitForRealTime(t *testing.T) {
	t.Parallel()
	const reason = "a sleep is too short on a slow machine and too long on a fast one: wait for a signal, or run in a bubble"
	for _, files := range byDir(sources(t)) {
		for _, place := range realWaits(files) {
			t.Errorf("%s. The reason: %s", place, reason)
		}
	}
}

func TestARealWaitIsFoundWhereverItHides(t *testing.T) {
	t.Parallel()
	const head = "package a\nimport (\"time\"; \"testing\"; \"testing/synctest\")\n"
	const bubble = "func virtual(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }\n"
	for text, want := range map[string]int{
		"func TestA(t *testing.T) { time.Sleep(1) }":                                                                        1,
		"func TestA(t *testing.T) { <-time.After(1) }":                                                                      1,
		"func TestA(t *testing.T) { select { case <-time.After(1): } }":                                                     0,
		"func TestA(t *testing.T) { h() }\nfunc h() { for range time.Tick(1) {} }":                                          1,
		"func TestA(t *testing.T) { go func() { time.Sleep(1) }() }":                                                        1,
		"func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }":                               0,
		"func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { h() }) }\nfunc h() { time.Sleep(1) }":             0,
		bubble + "func TestA(t *testing.T) { virtual(t, func() { time.Sleep(1) }) }":                                        0,
		"func TestA(t *testing.T) { h() }\n// h waits for virtual time.\nfunc h() { time.Sleep(1) }":                        0,
		"func TestA(t *testing.T) {\ntime.Sleep(1) // real time: it is what is tested\n}":                                   0,
		"type x struct { s *sim.Sim }\nfunc TestA(t *testing.T) { h() }\nfunc (x) h() { time.Sleep(1) }":                    0,
		bubble + "func TestA(t *testing.T) { virtual(t, h) }\nfunc h() { time.Sleep(1) }":                                   0,
		bubble + "func TestA(t *testing.T) { virtual(t, h) }\nfunc TestB(t *testing.T) { h() }\nfunc h() { time.Sleep(1) }": 1,
		"type x struct{}\nfunc TestA(t *testing.T) { x{}.h() }\nfunc (x) h() { time.Sleep(1) }":                             1,
	} {
		s, err := parse("a_test.go", []byte(head+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := realWaits([]*source{s}); len(got) != want {
			t.Errorf("%d waits were found, not %d: %v in\n%s", len(got), want, got, text)
		}
	}
}
