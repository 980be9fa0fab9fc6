package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sentry is linked by way of the engine's errors. It sends nothing for a program that has not made
// it a client.
const sentry = "github.com/getsentry/sentry-go"

func TestNothingThatIsLinkedStartsSentry(t *testing.T) {
	t.Parallel()
	pkgs, users := list(t), 0
	for path, p := range pkgs {
		if !slices.Contains(p.Imports, sentry) || within(path, sentry) {
			continue
		}
		users++
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range startsSentry(t, name, text) {
				t.Errorf("%s: %s calls sentry.%s", path, name, call)
			}
		}
	}
	if users == 0 {
		t.Error("nothing imports sentry-go: take what docs/faq.md says of it away, and this test")
	}
	if calls := startsSentry(t, "a.go", []byte("package a\nfunc f() { _ = sentry.Init(sentry.ClientOptions{}) }\n")); len(calls) != 1 {
		t.Errorf("the call of a package that starts it is not found: %v", calls)
	}
}

// startsSentry finds what makes a client in a file that imports the package by its name.
func startsSentry(t *testing.T, name string, text []byte) (calls []string) {
	t.Helper()
	file, err := parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"Init", "NewClient", "NewHub", "BindClient"}, sel.Sel.Name) {
			calls = append(calls, sel.Sel.Name)
		}
		return true
	})
	return calls
}
