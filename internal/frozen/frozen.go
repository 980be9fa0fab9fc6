// Package frozen compares what this version writes with golden files, for tests. Versions of one group
// read each other's messages, logs and disks, so the bytes of a feature level never change.
package frozen

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

// Rewrite is the variable of the environment with which Check writes golden files anew. fsm has the
// flag -rewrite for it.
const Rewrite = "HOLDFAST_REWRITE"

// Check fails the test unless got is what the golden file at path holds.
func Check(t testing.TB, path string, got []byte) {
	t.Helper()
	if f := flag.Lookup("rewrite"); os.Getenv(Rewrite) != "" || f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, golden) {
		return
	}
	t.Errorf("%s: a change of a frozen format is a new feature level: what it adds goes into a golden file of that level, "+
		"and this one stays as it is. Before the first release %s=1 writes it anew", path, Rewrite)
	now, then := strings.Split(string(got), "\n"), strings.Split(string(golden), "\n")
	for i := range max(len(now), len(then)) {
		if a, b := line(now, i), line(then, i); a != b {
			t.Fatalf("line %d is\n%.400q, and was\n%.400q", i+1, a, b)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
