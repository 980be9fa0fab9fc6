package fsm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// constants are those that decide outcomes.
func constants() map[string]any {
	return map[string]any{
		"stepMax": stepMax, "stepsOfEntry": stepsOfEntry, "costOfLook": costOfLook, "costOfClaim": costOfClaim,
		"pruneMax": pruneMax, "tracerSteps": tracerSteps, "BatchMax": BatchMax, "SilentMax": SilentMax,
		"PeriodsMax": PeriodsMax, "PeriodMin": PeriodMin, "SweepMax": SweepMax, "sweepAlong": sweepAlong,
		"NameBytesMax": NameBytesMax, "LabelBytesMax": LabelBytesMax, "ValueBytesMax": ValueBytesMax,
		"LimitMax": LimitMax, "TTLMax": time.Duration(TTLMax), "TTLMin": TTLMin, "SetMax": SetMax, "ListMax": ListMax,
		"RenewMax": RenewMax, "WhileMax": WhileMax, "RestMax": time.Duration(RestMax), "KeepMax": time.Duration(KeepMax),
		"BootBytesMax": BootBytesMax, "TokenBits": TokenBits, "TokenMax": uint64(TokenMax), "LocksMax": LocksMax, "WaitersMax": WaitersMax,
		"HoldersMax": HoldersMax, "SessionsMax": SessionsMax, "NodesMax": NodesMax, "ForgottenMax": ForgottenMax,
		"SpansMax": SpansMax, "NumbersMax": NumbersMax, "SpansTotalMax": SpansTotalMax, "ValuesBytesMax": ValuesBytesMax,
		"KeysMax": KeysMax, "PastMax": PastMax, "PastLocksMax": PastLocksMax, "ResizesMax": ResizesMax,
	}
}

// Two versions that differ in a constant that decides outcomes would diverge in one group. Before a
// release a change is written here by UPDATE_GOLDEN; afterwards it needs a feature level of its own.
func TestTheConstantsThatDecideOutcomesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	var lines []string
	for name, value := range constants() {
		lines = append(lines, fmt.Sprintf("%s %v\n", name, value))
	}
	slices.Sort(lines)
	frozen.Check(t, "testdata/constants.v1", []byte(strings.Join(lines, "")))
	frozen.Check(t, "testdata/constants.v2", fmt.Appendf(nil, "BlockBytes %d\nQuotasMax %d\n", BlockBytes, QuotasMax))
}

// A constant with a number of its own is in the list above, or decides no outcome.
func TestEveryConstantIsGoldenOrDecidesNothing(t *testing.T) {
	t.Parallel()
	free := []string{"BlockBytes", "QuotasMax", "LevelOfQuotas", // of level 2: constants.v2
		// room, and forms that have versions or are in other golden files
		"usual", "outcomeSize", "eventsKept", "recentMax", "keep", "frameBytes", "frameBytesMax", "frameHead", "snapshotVersion",
		"commandVersion", "commandsMax", "LevelKnown", "opNext", "opEnd", "ProcessBytes", "othersField", "grantsField", "queryVersion",
		"PageItems", "PageBytes", "QueryClaimsMax", // of answers, which no replica compares
	}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
				for _, spec := range decl.Specs {
					s := spec.(*ast.ValueSpec)
					for i, value := range s.Values {
						name := s.Names[i].Name
						if _, golden := constants()[name]; !golden && !slices.Contains(free, name) && isNumber(value) {
							t.Errorf("%s: %s", path, name)
						}
					}
				}
			}
			return true
		})
	}
}

// isNumber says whether an expression has a number in it, and does not count.
func isNumber(e ast.Expr) bool {
	number, counts := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			counts = counts || id.Name == "iota"
		}
		if lit, ok := n.(*ast.BasicLit); ok {
			number = number || lit.Kind != token.STRING
		}
		return true
	})
	return number && !counts
}
