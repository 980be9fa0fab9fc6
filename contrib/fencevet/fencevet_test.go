package fencevet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/holdfast-go/holdfast/contrib/fencevet"
)

// The comments in testdata/src/a say what is found on their line; what has none is found to be
// well.
func TestMisuseIsFoundAndGoodUseIsNot(t *testing.T) {
	t.Parallel()
	a := fencevet.Analyzer()
	if err := a.Flags.Set("writes", "a.save,b.other"); err != nil {
		t.Fatal(err)
	}
	analysistest.Run(t, analysistest.TestData(), a, "a")
}

func TestTestsAreLookedAtWhenAskedFor(t *testing.T) {
	t.Parallel()
	a := fencevet.Analyzer()
	if err := a.Flags.Set("tests", "true"); err != nil {
		t.Fatal(err)
	}
	analysistest.Run(t, analysistest.TestData(), a, "b")
}
