package fencevet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// usage is what a function does with a lease.
type usage struct {
	token       bool      // asks for its token
	passed      bool      // gives it away: as an argument, a result, a field, a method value
	deferred    token.Pos // of a release that is deferred
	lastRelease token.Pos // of a release that is not
}

// uses looks at every mention of a lease in the body of its function.
func (v *visitor) uses(lease *types.Var, body *ast.BlockStmt) (u usage) {
	var stack []ast.Node
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		if name, ok := n.(*ast.Ident); ok && v.pass.TypesInfo.Uses[name] == lease {
			u.note(name, stack)
		}
		return true
	})
	return u
}

// note takes one mention, the last of the stack.
func (u *usage) note(name *ast.Ident, stack []ast.Node) {
	at := len(stack) - 2
	switch parent := stack[at].(type) {
	case *ast.SelectorExpr:
		if call, ok := stack[at-1].(*ast.CallExpr); ok && call.Fun == parent {
			u.call(parent.Sel.Name, call.Pos(), stack)
			return
		}
	case *ast.BinaryExpr: // compared with nil
		return
	case *ast.AssignStmt:
		for _, to := range parent.Lhs {
			if to == name {
				return // overwritten
			}
		}
	}
	u.passed = true
}

func (u *usage) call(method string, at token.Pos, stack []ast.Node) {
	switch method {
	case "Token":
		u.token = true
	case "Release":
		for i, n := range stack {
			if d, ok := n.(*ast.DeferStmt); ok {
				u.deferred = d.Pos()
				return
			}
			// A function that is handed to somebody else: t.Cleanup(func() { lease.Release(ctx) })
			if _, ok := n.(*ast.FuncLit); ok && i > 0 {
				if _, ok := stack[i-1].(*ast.CallExpr); ok {
					u.passed = true
					return
				}
			}
		}
		u.lastRelease = max(u.lastRelease, at)
	}
}

// writes are the functions and methods that write to a resource, by import path and name.
func writes(extra string) map[string]bool {
	set := make(map[string]bool)
	add := func(path string, names ...string) {
		for _, name := range names {
			set[path+"."+name] = true
		}
	}
	add("database/sql", "Exec", "ExecContext")
	add("net/http", "Do", "Post", "PostForm")
	add("os", "WriteFile", "Write", "WriteAt", "WriteString", "Truncate", "Remove", "RemoveAll", "Rename", "Symlink", "Link")
	for _, path := range []string{"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool"} {
		add(path, "Exec", "CopyFrom", "SendBatch")
	}
	add("github.com/redis/go-redis/v9", "Set", "SetNX", "SetEx", "MSet", "Del", "Unlink", "Incr", "IncrBy", "Decr", "DecrBy", "Append",
		"HSet", "HDel", "HIncrBy", "LPush", "RPush", "LPop", "RPop", "LTrim", "SAdd", "SRem", "ZAdd", "ZRem", "XAdd", "Expire", "Publish")
	for _, name := range strings.Split(extra, ",") {
		if name != "" {
			set[name] = true
		}
	}
	return set
}

// write is the name of what a call writes with, "" if it does not.
func (v *visitor) write(call *ast.CallExpr) string {
	f, ok := typeutil.Callee(v.pass.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || !v.writes[f.Pkg().Path()+"."+f.Name()] {
		return ""
	}
	return f.Name()
}
