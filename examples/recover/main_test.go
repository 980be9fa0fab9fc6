package main

import (
	"strings"
	"testing"
)

func TestTheDrillShowsTheTokensBeforeAndAfter(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := drill(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"Three nodes serve", "is recovered as group", "precious", "After: token"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
