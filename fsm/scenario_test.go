package fsm

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scenarios are scripts in testdata/*.txt: blocks of one command, a line "----" and the output that
// it must have. scenario_command_test.go has the commands. -rewrite writes the outputs anew: read
// the diff.
func TestScenariosHaveTheirGoldenOutput(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if rewriting() {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: output differs, see -rewrite:\n%s", path, firstDifference(got, string(want)))
			}
		})
	}
}

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the golden output of the scenarios anew")
	flag.Parse()
	os.Exit(m.Run())
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// play runs a script and returns it with the outputs that came.
func play(t *testing.T, script string) string {
	s := &stage{m: New(), incarnation: make(map[byte]uint64)}
	var out strings.Builder
	skipping := false
	for _, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		switch {
		case skipping:
			skipping = line != ""
		case line == "----":
			skipping = true
		case line == "" || strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		default:
			result := s.run(line)
			if err := s.m.Check(); err != nil {
				t.Fatalf("after %q: %v", line, err)
			}
			fmt.Fprintf(&out, "%s\n----\n%s\n", line, result)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			from, to := max(0, i-5), min(len(g), i+6)
			return fmt.Sprintf("line %d, got:\n%s\nwant:\n%s", i+1,
				strings.Join(g[from:to], "\n"), strings.Join(w[min(from, len(w)):min(to, len(w))], "\n"))
		}
	}
	return "the output ends too early"
}

// snapshot is the machine's snapshot.
func snapshot(m *Machine) []byte {
	var b bytes.Buffer
	if err := m.WriteSnapshot(&b, nil); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// stateOf is the machine's snapshot without how far it has come.
func stateOf(m *Machine) []byte {
	f := m.Fork()
	f.applied, f.commands = 0, 0
	return snapshot(f)
}
