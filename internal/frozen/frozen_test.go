package frozen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told takes the complaints of a test in its place.
type told struct {
	testing.TB
	text strings.Builder
}

func (t *told) Helper()                      {}
func (t *told) Errorf(text string, a ...any) { fmt.Fprintf(&t.text, text, a...) }
func (t *told) Fatalf(text string, a ...any) { fmt.Fprintf(&t.text, text, a...) }

func TestAChangeOfAFrozenFormatIsSaidToBeANewLevel(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "golden.v1")
	if err := os.WriteFile(path, []byte("a 01\nb 02\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		"a 01\nb 02\n":       "",
		"a 01\nb 03\n":       "line 2",
		"a 01\n":             "line 2",
		"a 01\nb 02\nc 03\n": "line 3",
	} {
		mine := &told{TB: t}
		Check(mine, path, []byte(got))
		text := mine.text.String()
		if want == "" && text != "" || !strings.Contains(text, want) || want != "" && !strings.Contains(text, "a change of a frozen format is a new feature level") {
			t.Errorf("%q: %q", got, text)
		}
		other := &told{TB: t}
		Golden(other, path, []byte(got))
		if text := other.text.String(); want == "" && text != "" || !strings.Contains(text, want) || strings.Contains(text, "level") {
			t.Errorf("of a format that is not frozen, %q: %q", got, text)
		}
	}
}
