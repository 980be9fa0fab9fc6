// Package frozen compares what this version writes with golden files, for tests. Versions of one group
// read each other's messages, logs and disks, so the bytes of a feature level never change: Check says
// so. Golden is for all other golden files.
package frozen

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Update is the variable of the environment with which tests write golden files anew.
const Update = "UPDATE_GOLDEN"

// Golden fails the test unless got is what the golden file at path holds.
func Golden(t testing.TB, path string, got []byte) {
	t.Helper()
	if where := differs(t, path, got); where != "" {
		t.Errorf("%s is not up to date (%s=1 writes it anew: read the difference): %s", path, Update, where)
	}
}

// Check is Golden for a file of a frozen format.
func Check(t testing.TB, path string, got []byte) {
	t.Helper()
	if where := differs(t, path, got); where != "" {
		t.Errorf("%s: a change of a frozen format is a new feature level: what it adds goes into a golden file of that level, "+
			"and this one stays as it is. Before the first release %s=1 writes it anew. %s", path, Update, where)
	}
}

// differs says where got differs from the file, which it writes first if it is asked to.
func differs(t testing.TB, path string, got []byte) string {
	t.Helper()
	if os.Getenv(Update) != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, golden) {
		return ""
	}
	now, then := strings.Split(string(got), "\n"), strings.Split(string(golden), "\n")
	i := 0
	for line(now, i) == line(then, i) && i < max(len(now), len(then)) {
		i++
	}
	return fmt.Sprintf("line %d is\n%.400q, and was\n%.400q", i+1, line(now, i), line(then, i))
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
