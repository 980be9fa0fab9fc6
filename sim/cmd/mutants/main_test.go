package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A mutant whose text is gone tests nothing any more: whoever changes the line moves the mutant along.
func TestEveryMutantFitsTheSource(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range mutants() {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if broken, err := m.apply(string(source)); err != nil || broken == string(source) {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || len(m.suites) == 0 {
			t.Errorf("%s: twice, or without a suite", m.name)
		}
		names[m.name] = true
	}
	if len(names) < 40 {
		t.Errorf("%d mutants, at least forty wanted", len(names))
	}
}
