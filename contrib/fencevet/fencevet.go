// Package fencevet is an analyser for go vet that finds how leases of Holdfast locks are misused:
//
//   - a lease, or the error beside it, is ignored;
//   - its release is not deferred, so that a panic or an early return keeps the lock to the end of
//     its TTL, or for ever while it is renewed; or it is deferred in a loop, and waits for the end
//     of the function;
//   - a write under a lease without its token: the function writes to a database, a file, an HTTP
//     service or Redis and never asks for the token, so nothing can stop the write when the lease
//     is over.
//
// It looks at one function at a time and gives the benefit of the doubt: a lease that is passed on,
// stored or returned is somebody else's to release and to fence. Tests are left out unless the flag
// -tests is given: they misuse leases on purpose. What is meant as it is gets a comment on its
// line, with a reason:
//
//	db.ExecContext(ctx, touch) //fencevet:ok idempotent
package fencevet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

const holdfast = "github.com/holdfast-go/holdfast"

// Analyzer returns the analyser. Its flag -writes adds functions and methods to those that write,
// as import/path.Name with commas between; -tests has it look at tests too.
func Analyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name:     "fencevet",
		Doc:      "find leases that are ignored or not released, and writes under a lease without its token",
		URL:      "https://github.com/holdfast-go/holdfast/blob/main/docs/fencing.md",
		Requires: []*analysis.Analyzer{inspect.Analyzer},
	}
	extra := a.Flags.String("writes", "", "more functions that write: import/path.Name,…")
	tests := a.Flags.Bool("tests", false, "look at _test.go files too")
	a.Run = func(pass *analysis.Pass) (any, error) {
		v := &visitor{pass: pass, writes: writes(*extra), tests: *tests, reported: make(map[token.Pos]bool)}
		v.run(pass.ResultOf[inspect.Analyzer].(*inspector.Inspector))
		return nil, nil
	}
	return a
}

// visitor looks at one package.
type visitor struct {
	pass     *analysis.Pass
	writes   map[string]bool
	tests    bool
	reported map[token.Pos]bool // writes under two leases are told once
}

func (v *visitor) run(in *inspector.Inspector) {
	in.WithStack([]ast.Node{(*ast.CallExpr)(nil)}, func(n ast.Node, push bool, stack []ast.Node) bool {
		if push {
			v.acquisition(n.(*ast.CallExpr), stack)
		}
		return true
	})
	in.Preorder([]ast.Node{(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)}, func(n ast.Node) { v.parameters(n) })
}

// acquisition looks at a call that returns a lease and an error.
func (v *visitor) acquisition(call *ast.CallExpr, stack []ast.Node) {
	results, ok := v.pass.TypesInfo.TypeOf(call).(*types.Tuple)
	if !ok || results.Len() != 2 || !isLease(results.At(0).Type()) {
		return
	}
	var lhs []ast.Expr
	switch parent := stack[len(stack)-2].(type) {
	case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
		v.report(call.Pos(), "the lease is ignored: nobody releases it or hears of its loss")
		return
	case *ast.AssignStmt:
		lhs = parent.Lhs
	case *ast.ValueSpec:
		for _, name := range parent.Names {
			lhs = append(lhs, name)
		}
	}
	if len(lhs) != 2 {
		return // returned, for instance
	}
	if isBlank(lhs[1]) {
		v.report(call.Pos(), "the error is ignored: without a lease the lock is not held")
	}
	if isBlank(lhs[0]) {
		v.report(call.Pos(), "the lease is ignored: nobody releases it or hears of its loss")
		return
	}
	name, ok := lhs[0].(*ast.Ident)
	if !ok {
		return // stored
	}
	lease, ok := v.pass.TypesInfo.ObjectOf(name).(*types.Var)
	body, loop := enclosing(stack)
	if !ok || body == nil || lease.Parent() == v.pass.Pkg.Scope() || lease.Pos() < body.Pos() {
		return // a variable of a wider scope is passed on
	}
	use := v.uses(lease, body)
	v.released(call, lease, use, loop)
	if !use.token && !use.passed {
		v.unfenced(body, lease.Name(), call.End(), use.lastRelease)
	}
}

// released reports how the release of a lease is missing.
func (v *visitor) released(call *ast.CallExpr, lease *types.Var, use usage, loop ast.Node) {
	switch {
	case use.deferred.IsValid() && loop != nil && loop.Pos() < use.deferred && use.deferred < loop.End():
		v.report(use.deferred, "the release of %s is deferred in a loop: it waits for the end of the function", lease.Name())
	case use.deferred.IsValid() || use.passed:
	case !use.lastRelease.IsValid():
		v.report(call.Pos(), "%s is never released: defer %[1]s.Release", lease.Name())
	case loop == nil:
		v.report(call.Pos(), "the release of %s is not deferred: a panic or an early return keeps the lock", lease.Name())
	}
}

// parameters looks at functions that are given a lease, as those of Do, Lead and Once are.
func (v *visitor) parameters(n ast.Node) {
	var kind *ast.FuncType
	var body *ast.BlockStmt
	switch n := n.(type) {
	case *ast.FuncDecl:
		kind, body = n.Type, n.Body
	case *ast.FuncLit:
		kind, body = n.Type, n.Body
	}
	if body == nil {
		return
	}
	for _, field := range kind.Params.List {
		if !isLease(v.pass.TypesInfo.TypeOf(field.Type)) {
			continue
		}
		if len(field.Names) == 0 || isBlank(field.Names[0]) {
			v.unfenced(body, "the lease", body.Pos(), token.NoPos)
		}
		for _, name := range field.Names {
			if lease, ok := v.pass.TypesInfo.ObjectOf(name).(*types.Var); ok && !isBlank(name) {
				if use := v.uses(lease, body); !use.token && !use.passed {
					v.unfenced(body, name.Name, body.Pos(), token.NoPos)
				}
			}
		}
	}
}

// unfenced reports the writes in body after from, and before until if that is valid.
func (v *visitor) unfenced(body *ast.BlockStmt, lease string, from, until token.Pos) {
	ast.Inspect(body, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncLit); ok && v.hasLease(f) {
			return false // it has its own
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() < from || until.IsValid() && call.Pos() > until || v.reported[call.Pos()] {
			return true
		}
		if what := v.write(call); what != "" {
			v.reported[call.Pos()] = true
			v.report(call.Pos(), "%s writes under %s without its token: nothing stops it when the lease is over", what, lease)
		}
		return true
	})
}

func (v *visitor) hasLease(f *ast.FuncLit) bool {
	for _, field := range f.Type.Params.List {
		if isLease(v.pass.TypesInfo.TypeOf(field.Type)) {
			return true
		}
	}
	return false
}

// report tells of a misuse, unless it is in a test and those are not asked for, or excused.
func (v *visitor) report(at token.Pos, format string, args ...any) {
	if v.tests || !strings.HasSuffix(v.pass.Fset.Position(at).Filename, "_test.go") {
		if !v.excused(at) {
			v.pass.Reportf(at, format, args...)
		}
	}
}

// excused looks for the comment on the line of a misuse.
func (v *visitor) excused(at token.Pos) bool {
	position := v.pass.Fset.Position(at)
	for _, file := range v.pass.Files {
		if file.FileStart > at || at > file.FileEnd {
			continue
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				reason, ok := strings.CutPrefix(c.Text, "//fencevet:ok ")
				if ok && strings.TrimSpace(reason) != "" && v.pass.Fset.Position(c.Pos()).Line == position.Line {
					return true
				}
			}
		}
	}
	return false
}

func isBlank(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "_"
}

func isLease(t types.Type) bool {
	pointer, ok := types.Unalias(t).(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(pointer.Elem()).(*types.Named)
	return ok && named.Obj().Name() == "Lease" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == holdfast
}

// enclosing is the body of the innermost function of a stack, and the innermost loop within it.
func enclosing(stack []ast.Node) (body *ast.BlockStmt, loop ast.Node) {
	for i := len(stack) - 1; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.FuncDecl:
			return n.Body, loop
		case *ast.FuncLit:
			return n.Body, loop
		case *ast.ForStmt, *ast.RangeStmt:
			if loop == nil {
				loop = n
			}
		}
	}
	return nil, nil
}
