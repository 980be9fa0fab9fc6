package lint

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const operations = "docs/operations.md"

// section is the text below a heading, up to the next of the same level.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), operations))
	if err != nil {
		t.Fatal(err)
	}
	level := title[:strings.IndexByte(title, ' ')+1]
	_, rest, ok := strings.Cut(string(text), "\n"+title+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", operations, title)
	}
	rest, _, _ = strings.Cut(rest, "\n"+level)
	return rest
}

// firsts are the first cells of the rows of a section's tables.
func firsts(text string) (cells []string) {
	for line := range strings.Lines(text) {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, " |")
			cells = append(cells, cell)
		}
	}
	return cells
}

// product reports whether a source is of the library itself.
func product(s *source) bool {
	if s.isTest() {
		return false
	}
	for _, dir := range []string{"sim", "examples", "contrib", "bench", "deploy", "internal/servers", "internal/testkit", "internal/testlog", "internal/lint"} {
		if within(s.path, dir) {
			return false
		}
	}
	return true
}

// Every line that an operator may find in a log has its row, and no row is of a line that is gone.
func TestOperationsExplainsEveryLogLine(t *testing.T) {
	t.Parallel()
	lines := logged(sources(t))
	if len(lines) < 25 {
		t.Fatalf("only %d lines were found: the pattern has become useless", len(lines))
	}
	told := section(t, "## Log lines")
	for line, where := range lines {
		if !strings.Contains(told, "`"+line) {
			t.Errorf("%s logs %q: give it a row in %s, Log lines", where, line, operations)
		}
	}
	for _, cell := range firsts(told) {
		line, code := strings.CutPrefix(strings.TrimSuffix(cell, "`"), "`")
		if !code || strings.Contains(line, "…") { // of no single line
			continue
		}
		if _, ok := lines[line]; !ok {
			t.Errorf("%s explains %q, which nothing logs", operations, line)
		}
	}
}

// logged finds the constant messages of warnings, errors and infos, with the place of one of each.
func logged(all []*source) map[string]string {
	found := make(map[string]string)
	for _, s := range all {
		if !product(s) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			prefix := ""
			switch {
			case ok && slices.Contains([]string{"Info", "Warn", "Error"}, sel.Sel.Name) && isLogger(sel.X):
			case ok && sel.Sel.Name == "drop" && within(s.path, "internal/membership"): // of the log filter there
				prefix = "gossip: "
			default:
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					found[prefix+text] = fmt.Sprintf("%s:%d", s.path, s.line(call.Pos()))
				}
			}
			return true
		})
	}
	return found
}

// isLogger goes by the name of a variable or field.
func isLogger(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return slices.Contains([]string{"log", "logger", "Logger"}, name)
}

// Every error that a caller branches on has its row.
func TestOperationsExplainsEveryError(t *testing.T) {
	t.Parallel()
	cells := firsts(section(t, "## Errors"))
	var errors []string
	for _, s := range sources(t) {
		if s.path != "errors.go" {
			continue
		}
		for _, spec := range declared(s.file, token.VAR) {
			for _, name := range spec.Names {
				errors = append(errors, "`"+name.Name+"`")
			}
		}
	}
	if len(errors) < 10 {
		t.Fatalf("only %d errors were found in errors.go", len(errors))
	}
	for _, name := range errors {
		if !slices.Contains(cells, name) {
			t.Errorf("%s does not explain %s", operations, name)
		}
	}
	for _, cell := range cells {
		if strings.HasPrefix(cell, "`") && !slices.Contains(errors, cell) {
			t.Errorf("%s explains %s, which errors.go does not declare", operations, cell)
		}
	}
}

// limitNames says which constants a row of the table of limits goes by.
func limitNames() map[string][]string {
	return map[string][]string{
		"bytes of a lock's name or of a `Once` key":                 {"NameMax", "NameBytesMax"},
		"bytes of a label":                                          {"LabelMax", "LabelBytesMax"},
		"bytes of a lock's value":                                   {"ValueMax", "ValueBytesMax"},
		"bytes of all values of a group, those of waiters included": {"ValuesBytesMax"},
		"locks that are held, waited for, or have a value":          {"LocksMax"},
		"finished `Once` keys that are remembered":                  {"KeysMax"},
		"waiters of all locks":                                      {"WaitersMax"},
		"holders of one shared lock or semaphore":                   {"HoldersMax"},
		"permits of a semaphore":                                    {"LimitMax"},
		"quotas":                                                    {"QuotasMax"},
		"semaphores that were resized":                              {"ResizesMax"},
		"names of one `AcquireAll`":                                 {"SetMax"},
		"sessions of all nodes":                                     {"SessionsMax"},
		"nodes with a living process":                               {"NodesMax"},
		"unfinished calls of one session of a node":                 {"OpenMax"},
		"calls of a node that wait for their turn":                  {"turnsMax"},
		"watches and observers of a node":                           {"WatchesMax"},
		"events that wait for one watcher":                          {"EventsMax"},
		"hooks that wait":                                           {"hooksQueued"},
		"clients of one replica":                                    {"ClientsMax"},
		"members that gossip sees":                                  {"membersMax"},
		"`Voters`":                                                  {"votersMax"},
		"`Bootstrap`":                                               {"nodesMax"},
		"`Secrets`":                                                 {"secretsMax"},
		"grants in `Inspect().Past`":                                {"PastMax", "PastLocksMax"},
		"shortest and longest TTL":                                  nil, // durations
		"`WithMinHold`, `WithLockDelay`":                            nil,
		"`WithKeepFor`":                                             nil,
	}
}

func TestTheTableOfLimitsAgreesWithTheConstants(t *testing.T) {
	t.Parallel()
	values := constants(sources(t))
	number := regexp.MustCompile(`\d[\d,]*`)
	names := limitNames()
	for line := range strings.Lines(section(t, "## Limits")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 2 || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| what") {
			continue
		}
		row := strings.TrimSpace(cells[0])
		wanted, ok := names[row]
		if !ok {
			t.Errorf("limitNames does not say which constant %q goes by", row)
		}
		delete(names, row)
		for _, name := range wanted {
			if !slices.ContainsFunc(number.FindAllString(cells[1], -1), func(n string) bool {
				return slices.Contains(values[name], strings.ReplaceAll(n, ",", ""))
			}) {
				t.Errorf("%s says that %s are at most %s, but %s is %v", operations, row, cells[1], name, values[name])
			}
		}
	}
	for row := range names {
		t.Errorf("%s has no row %q", operations, row)
	}
}

// constants evaluates the integer constants of the library, by name: several packages may have one
// of a name.
func constants(all []*source) map[string][]string {
	values := make(map[string][]string)
	for _, s := range all {
		if !product(s) {
			continue
		}
		for _, v := range declared(s.file, token.CONST) {
			for i, name := range v.Names {
				if i < len(v.Values) {
					if value := evaluate(v.Values[i]); value != nil {
						values[name.Name] = append(values[name.Name], value.ExactString())
					}
				}
			}
		}
	}
	return values
}

// evaluate is the value of an expression of literals, nil if it is another.
func evaluate(x ast.Expr) constant.Value {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.INT {
			return constant.MakeFromLiteral(x.Value, x.Kind, 0)
		}
	case *ast.ParenExpr:
		return evaluate(x.X)
	case *ast.BinaryExpr:
		a, b := evaluate(x.X), evaluate(x.Y)
		if a == nil || b == nil {
			return nil
		}
		if x.Op == token.SHL || x.Op == token.SHR {
			n, _ := constant.Uint64Val(b)
			return constant.Shift(a, x.Op, uint(n))
		}
		return constant.BinaryOp(a, x.Op, b)
	}
	return nil
}
