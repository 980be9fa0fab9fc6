package fsm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// Scenarios are scripts in testdata/*.txt: blocks of one command, a line "----" and the output that
// it must have. scenario_command_test.go has the commands.
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
			frozen.Golden(t, path, []byte(play(t, string(want))))
		})
	}
}

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
