package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// A mutant whose text is gone tests nothing any more, and a suite that runs no test catches
// nothing: a change of such a line moves its mutant along. Files may move freely.
func TestEveryMutantFitsTheSourceAndHasItsSuites(t *testing.T) {
	t.Parallel()
	source, err := readTree("../../..")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, m := range mutants() {
		file, before, after, err := source.apply(m)
		if err != nil || before == after {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, after, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || m.suites == "" {
			t.Errorf("%s: twice, or without a suite", m.name)
		}
		names[m.name] = true
		for name := range strings.FieldsSeq(m.suites) {
			if _, err := source.suite(name, file); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
	if len(names) < 100 {
		t.Errorf("%d mutants, at least a hundred wanted", len(names))
	}
}
