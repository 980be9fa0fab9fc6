package main

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goroot is the installed one, if the patches know its version.
func goroot(t *testing.T) string {
	t.Helper()
	root, version, err := installed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(known(), version) {
		t.Skipf("exact replay does not know %s", version)
	}
	return root
}

func TestEveryPlaceToPatchIsThereOnceInTheVersionsThatAreKnown(t *testing.T) {
	t.Parallel()
	root := goroot(t)
	list, err := writeOverlay(root, known()[0], t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches() {
		if !strings.Contains(string(text), fmt.Sprintf("%q", filepath.Join(root, "src", p.file))) {
			t.Errorf("%s is patched and not in the list", p.file)
		}
	}
	for name, source := range added() {
		if b, err := format.Source([]byte(source)); err != nil || string(b) != source {
			t.Errorf("%s is not formatted (%v)", name, err)
		}
	}
}

func TestAVersionOfGoThatNobodyHasReadIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := writeOverlay(t.TempDir(), "go1.99.0", dir)
	if err == nil || !strings.Contains(err.Error(), "go1.99.0") {
		t.Errorf("answered %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}

// A place that is missing, or there twice, means that the source is not the one that the patch was
// written for.
func TestASourceThatHasChangedIsRefused(t *testing.T) {
	t.Parallel()
	root := goroot(t)
	for _, p := range patches() {
		for what, edit := range map[string]func(string) string{
			"missing": func(s string) string { return strings.Replace(s, p.old, "", 1) },
			"twice":   func(s string) string { return s + p.old },
		} {
			_, err := changed(func(name string) ([]byte, error) {
				b, err := os.ReadFile(filepath.Join(root, "src", name))
				if name == p.file {
					b = []byte(edit(string(b)))
				}
				return b, err
			})
			if err == nil || !strings.Contains(err.Error(), p.file) {
				t.Errorf("%s (%s) is %s: answered %v", p.file, p.why, what, err)
			}
		}
	}
}

func TestTheFirstDifferenceOfTwoTracesIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a", "one", "two", "three")
	for _, test := range []struct{ name, path, want string }{
		{"another line", write("b", "one", "2", "three"), "line 2\n  one\n- two\n- three\n- \n+ 2\n"},
		{"a shorter one", write("c", "one"), "line 2\n  one\n- two"},
		{"a longer one", write("d", "one", "two", "three", "four"), "line 4\n"},
	} {
		if err := compare(a, test.path); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if err := compare(a, write("e", "one", "two", "three")); err != nil {
		t.Error(err)
	}
	if _, _, err := digest(a); err == nil {
		t.Error("three lines prove something")
	}
	many := write("f", strings.Split(strings.Repeat("x ", linesMin), " ")...)
	if n, sum, err := digest(many); err != nil || n < linesMin || len(sum) != 64 {
		t.Errorf("%d lines, %q, %v", n, sum, err)
	}
}
