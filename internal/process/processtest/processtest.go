// Package processtest runs a test in a process of its own, where goroutines, descriptors and the
// standard logger are nobody else's.
package processtest

import (
	"os"
	"os/exec"
	"testing"
)

const (
	aloneVar  = "HOLDFAST_TEST_ALONE" // names the test that a process runs alone
	leavesVar = "HOLDFAST_TEST_LEAVES"
)

// Leaving is the environment of a process whose test may leave goroutines behind.
const Leaving = leavesVar + "=1"

// Alone runs the calling test in a process of its own, and returns true there. It makes the test
// parallel.
func Alone(t *testing.T) bool {
	t.Helper()
	return Here(t) || run(t, Command(t))
}

// Parked is Alone for tests of failed engines, which leave parked goroutines behind: TestMain asks
// MayLeave. That the process does not end by itself is half of such a test.
func Parked(t *testing.T) bool {
	t.Helper()
	if Here(t) {
		return true
	}
	cmd := Command(t, Leaving)
	cmd.Args = append(cmd.Args, "-test.parallel=8") // its parts wait more than they compute
	return run(t, cmd)
}

// Here says that this process runs the calling test alone.
func Here(t *testing.T) bool { return os.Getenv(aloneVar) == t.Name() }

// MayLeave says that the test of this process may leave goroutines behind.
func MayLeave() bool { return os.Getenv(leavesVar) != "" }

// Command is a process for the calling test alone, with further variables of the environment; the last
// value of one counts.
func Command(t *testing.T, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(append(os.Environ(), aloneVar+"="+t.Name()), env...)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	t.Parallel()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("in a process of its own:\n%s", out)
	}
	return false
}
