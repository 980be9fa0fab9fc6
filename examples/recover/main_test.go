package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDrillShowsTheTokensBeforeAndAfter(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"Three nodes serve", "is recovered as group", "precious", "After: token"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestAnEmptyDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"-dir", filepath.Join(t.TempDir(), "none"), "-unseen"}, &strings.Builder{}); err == nil {
		t.Error("it recovered nothing")
	}
}
