//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestACommandRunsUnderTheLockAndItsCodeIsOurs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.run(t, "run", "job", "--", "sh", "-c", `echo "$HOLDFAST_TOKEN $HOLDFAST_LOCK"; exit 7`)
	info, err := f.nodes[0].Inspect(testkit.Within(t, patience), "job")
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Holders) > 0 || len(info.Past) != 1 || info.Past[0].How != holdfast.EventReleased || info.Past[0].Label != "sh" {
		t.Fatalf("the lock is %+v: %s", info, r.err)
	}
	if want := info.Past[0].Token.String() + " job\n"; r.code != 7 || r.out != want {
		t.Errorf("code %d, %q, want %q: %s", r.code, r.out, want, r.err)
	}
	if r := f.run(t, "run", "job", "--", "sh", "-c", "kill -9 $$"); r.code != 128+9 {
		t.Errorf("a command that was killed: code %d: %s", r.code, r.err)
	}
	f.refused(t, 127, "PATH", "run", "job", "--", "no-such-program")
	f.refused(t, 126, "chmod", "run", "job", "--", write(t, filepath.Join(t.TempDir(), "text"), "text"))
}

func TestACommandThatDoesNotGetItsLockDoesNotRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.hold(t, "job")
	f.refused(t, 75, "held", "run", "--nonblock", "job", "--", "echo", "run")
	f.refused(t, 75, "held", "run", "--wait", "2s", "job", "--", "echo", "run")
	f.refused(t, 75, "held", "run", "--nonblock", "--shared", "job", "--", "echo", "run")
	f.refused(t, 1, "permits", "run", "--permits", "2", "job", "--", "echo", "run")
	waiting := f.start(t, "run", "job", "--", "echo", "run")
	<-l.Wanted() // by one of those that were refused, or by this one
	testkit.Settles(t, patience, "the command waits", func() bool {
		info, err := f.nodes[0].Inspect(t.Context(), "job")
		return err == nil && len(info.Waiters) == 1
	})
	waiting.send(t, syscall.SIGTERM)
	if code := waiting.code(t); code != 128+15 || len(waiting.lines) > 0 {
		t.Errorf("a command that was ended while it waited: code %d: %s", code, waiting.err)
	}
}

func TestALeaseLivesForNoLongerThanItsFleetAllows(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, func(_ int, cfg *holdfast.Config) { cfg.MaxTTL = 5 * time.Second })
	f.ok(t, "locks")
	f.refused(t, 2, "5s", "run", "job", "--", "true")
	f.ok(t, "run", "--ttl", "5s", "job", "--", "true")
}

// All commands had the default of --ttl, as run has it, and a fleet that allows less refused them.
func TestAFleetIsOperatedWhoseLongestTTLIsBelowTheDefaultOfRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, func(_ int, cfg *holdfast.Config) { cfg.MaxTTL = 5 * time.Second })
	l, c := f.hold(t, "job"), f.nodes[0]
	f.ok(t, "quotas")
	f.ok(t, "request-release", "job", "--reason", "please")
	f.ok(t, "release", "job", "--force", "--reason", "a test", "--yes")
	<-l.Done()
	f.ok(t, "transfer-leader", c.ID(), "--reason", "a test")
	f.ok(t, "revoke-node", c.ID(), "--reason", "a test", "--yes")
}

// A script gives what its variable has: --permits 0 took the lock itself, and --once "" ran the command again.
func TestAFlagThatWasGivenAndSaysNothingIsRefused(t *testing.T) {
	t.Parallel()
	f := &fleet{env: []string{"HOLDFAST_JOIN=127.0.0.1:1"}}
	for _, flag := range []string{"--permits=0", "--permits=-1", "--once=", "--ttl=0s", "--wait=0s"} {
		name, _, _ := strings.Cut(flag, "=")
		f.refused(t, 2, name+" is", "run", flag, "job", "--", "echo", "run")
	}
	f.refused(t, 2, "--ttl is", "elect", "--ttl=0s", "job", "--", "echo", "run")
}

func TestSharedHoldersAndPermitsRunSideBySide(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	script := []string{"--", "sh", "-c", "echo began; read line"}
	for name, how := range map[string][]string{"shared": {"--shared"}, "permits": {"--permits", "2"}} {
		args := append(append([]string{"run", name}, how...), script...)
		first, second := f.start(t, args...), f.start(t, args...)
		if first.line(t) != "began" || second.line(t) != "began" {
			t.Errorf("%s: they do not run", name)
		}
		if name == "permits" {
			f.refused(t, 75, "held", append([]string{"run", "--nonblock", name}, append(how, "--", "true")...)...)
		}
		for _, r := range []*running{first, second} {
			if err := r.Send("end"); err != nil || r.code(t) != 0 {
				t.Errorf("%s: %v: %s", name, err, r.err)
			}
		}
	}
}

func TestACommandUnderAOnceKeyRunsUntilItSucceeds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	if r := f.run(t, "run", "--once", "k", "--", "sh", "-c", "echo ran; exit 4"); r.code != 4 || r.out != "ran\n" {
		t.Errorf("a run that fails: code %d, %q: %s", r.code, r.out, r.err)
	}
	busy := f.start(t, "run", "--once", "k", "lock", "--", "sh", "-c", "echo $HOLDFAST_LOCK; read line")
	if busy.line(t) != "lock" {
		t.Error("the key hides the lock")
	}
	f.refused(t, 75, "run by", "run", "--once", "k", "--nonblock", "--", "echo", "ran")
	f.refused(t, 75, "held", "run", "--once", "other", "--nonblock", "lock", "--", "echo", "ran")
	waits := f.start(t, "run", "--once", "k", "--", "echo", "ran")
	if err := busy.Send("end"); err != nil || busy.code(t) != 0 {
		t.Errorf("%v: %s", err, busy.err)
	}
	if code := waits.code(t); code != 0 || len(waits.lines) > 0 || !strings.Contains(waits.err.String(), "finished") {
		t.Errorf("code %d: %s", code, waits.err)
	}
	if r := f.run(t, "run", "--once", "k", "--", "echo", "ran"); r.code != 0 || r.out != "" {
		t.Errorf("it runs again: code %d, %q", r.code, r.out)
	}
	f.refused(t, 2, "keep-for", "run", "--keep-for", "1h", "lock", "--", "echo", "ran")
	f.refused(t, 2, "name it", "run", "--once", "other", "--shared", "--", "echo", "ran")
	f.refused(t, 2, "above 0", "run", "--wait", "0s", "lock", "--", "echo", "ran")
}

// A key was remembered for a day, and no flag asked for more: a job of a month could run twice.
func TestAKeyIsRememberedForAsLongAsIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ran := func() bool { return f.ok(t, "run", "--once", "k", "--keep-for", "1ms", "--", "echo", "ran") == "ran\n" }
	if !ran() {
		t.Fatal("a new key does not run")
	}
	testkit.Polled(t, "a run after the key is forgotten", ran)
}

// The command has succeeded, and the fleet is gone: with code 0 nobody would have looked whether the
// key runs again.
func TestAKeyThatIsNotRecordedIsNoSuccess(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.start(t, "run", "--once", "k", "--ttl", "2m", "--", "sh", "-c", "echo ready; read line")
	if r.line(t) != "ready" {
		t.Fatal(r.err)
	}
	if err := f.nodes[0].Close(); err != nil {
		t.Error(err)
	}
	if err := r.Send("end"); err != nil {
		t.Error(err)
	}
	if code := r.code(t); code != 75 {
		t.Errorf("code %d: %s", code, r.err)
	}
}

func TestACommandDoesNotStartWhoseKeyWasLostMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.hold(t, "job")
	r := f.start(t, "run", "--once", "k", "job", "--", "echo", "ran")
	<-l.Wanted() // by the command, which has the key
	ctx := testkit.Within(t, patience)
	run, err := f.nodes[0].InspectOnce(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.nodes[0].RevokeNode(ctx, run.By.NodeID, "a test"); err != nil {
		t.Fatal(err)
	}
	testkit.Settles(t, patience, "the command waits again", func() bool {
		info, err := f.nodes[0].Inspect(ctx, "job")
		return err == nil && len(info.Waiters) == 1
	})
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if code := r.code(t); code != 75 || len(r.lines) > 0 || !strings.Contains(r.err.String(), "not started") {
		t.Errorf("code %d: %s", code, r.err)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.start(t, "run", "job", "--", "sh", "-c",
		`trap "echo usr1" USR1; trap "echo term; exit 3" TERM; echo ready; while :; do sleep 1000 & wait; done`)
	if r.line(t) != "ready" {
		t.Fatal(r.err)
	}
	r.send(t, syscall.SIGUSR1)
	if got := r.line(t); got != "usr1" {
		t.Errorf("it heard %q", got)
	}
	r.send(t, syscall.SIGTERM)
	if got, code := r.line(t), r.code(t); got != "term" || code != 3 {
		t.Errorf("it heard %q and ended with %d: %s", got, code, r.err)
	}
}

func TestACommandWhoseLeaseIsLostIsEnded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	for name, script := range map[string]string{
		"obeys":   `trap "echo term; exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`,
		"ignores": `trap "" TERM; echo ready; while :; do sleep 1000; done`,
		"forks":   `(trap "" TERM; sleep 1000; sleep 1000) & trap "" TERM; echo ready; wait; wait; sleep 1000`,
		"stopped": `echo ready; kill -STOP $$; sleep 1000`,
		"leaves":  `exec setsid sh -c 'trap "" TERM; echo ready; sleep 1000; sleep 1000'`, // the group: no signal reached it
	} {
		if _, err := exec.LookPath("setsid"); name == "leaves" && err != nil {
			continue
		}
		grace := "100ms"
		if name == "obeys" {
			grace = "1m" // the shell may take its time; it ends as soon as it has
		}
		r := f.start(t, "run", "--grace", grace, name, "--", "sh", "-c", script)
		if r.line(t) != "ready" {
			t.Fatal(r.err)
		}
		if err := f.nodes[0].ForceRelease(testkit.Within(t, patience), name, f.holder(t, name).Token, "a test"); err != nil {
			t.Fatal(err)
		}
		if code := r.code(t); code != 75 || !strings.Contains(r.err.String(), "a test") {
			t.Errorf("%s: code %d: %s", name, code, r.err)
		}
		if name == "obeys" && r.line(t) != "term" {
			t.Error("it did not get SIGTERM")
		}
	}
}

// The end of the output says that nobody has it any more.
func TestWhatACommandLeavesBehindIsEndedBeforeItsLockIsFree(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.start(t, "run", "--grace", "100ms", "job", "--", "sh", "-c", `sh -c 'trap "" TERM; echo ready; sleep 1000; sleep 1000' & read line`)
	if r.line(t) != "ready" {
		t.Fatal(r.err)
	}
	if err := r.Send("end"); err != nil || r.code(t) != 0 {
		t.Errorf("%v: %s", err, r.err)
	}
}

func TestACommandEndsWithAHoldfastThatIsKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := f.command("run", "--ttl", "1s", "--grace", "100ms", "job", "--", "sh", "-c", `trap "" TERM; sleep 1000 & echo ready; sleep 1000; sleep 1000`)
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if _, err := reader.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err := reader.Read(make([]byte, 10)); err == nil {
		t.Error("the command goes on") // and without the guard Read would not return
	}
	f.hold(t, "job") // free after the TTL
}

func TestACommandIsEndedWhenTheFleetLosesItsMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, func(_ int, cfg *holdfast.Config) { cfg.DataDir = t.TempDir() }) // a node with a directory stays a voter
	r := f.start(t, "run", "--ttl", "1s", "job", "--", "sh", "-c", "echo ready; exec sleep 1000")
	if r.line(t) != "ready" {
		t.Fatal(r.err)
	}
	for _, c := range f.nodes[1:] {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if code := r.code(t); code != 75 || !strings.Contains(r.err.String(), "lease") {
		t.Errorf("code %d: %s", code, r.err)
	}
	f.refused(t, 69, "majority", "run", "--timeout", "300ms", "job", "--", "true")
}

// The fleet had let the client in, and lost its majority before the client asked for the lock: that
// --timeout was for the joining alone.
func TestNonblockWaitsForAFleetThatHasLostItsMajorityNoLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, func(_ int, cfg *holdfast.Config) { cfg.DataDir = t.TempDir() }) // a node with a directory stays a voter
	a := &app{
		err: io.Discard, timeout: 100 * time.Millisecond, ttl: ttlDefault,
		fleet: fleetFlags{join: []string{f.nodes[0].Addr()}, cluster: "cli", secretFile: write(t, filepath.Join(t.TempDir(), "secrets"), secret)},
	}
	ctx := testkit.Within(t, patience)
	c, err := a.join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, c := range f.nodes[1:] {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for what, flags := range map[string]*runFlags{"a lock": {nonblock: true}, "a key": {nonblock: true, once: "k", keepFor: time.Hour}} {
		name := "job"
		if flags.once != "" {
			name = ""
		}
		got, err := flags.claim(ctx, c, a.timeout, name, []string{"true"})
		if got != nil || err == nil || ctx.Err() != nil || asExit(err).code != codeUnavailable {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}

func TestAnElectedCommandRunsOnOneNodeAndThenOnAnother(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	args := []string{"elect", "--ttl", "1s", "--grace", "100ms", "leader", "--", "sh", "-c", `trap "exit 5" TERM; echo $HOLDFAST_TOKEN; while :; do sleep 1000 & wait; done`}
	first := f.start(t, args...)
	token := first.line(t)
	second := f.start(t, args...)
	testkit.Settles(t, patience, "the second stands", func() bool {
		info, err := f.nodes[0].Inspect(t.Context(), "leader")
		return err == nil && len(info.Waiters) == 1
	})
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if next := second.line(t); next <= token {
		t.Errorf("token %s after %s", next, token)
	}
	second.send(t, syscall.SIGTERM)
	if code := second.code(t); code != 5 {
		t.Errorf("code %d: %s", code, second.err)
	}
	if _, err := f.nodes[0].Leader(testkit.Within(t, patience), "leader"); !errors.Is(err, holdfast.ErrNoLeader) {
		t.Error(err)
	}
}

// A signal came while the command of a lost office was ending: the end was told as one before the command began.
func TestASignalDoesNotHideTheLossOfAnOffice(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.start(t, "elect", "--grace", "1m", "leader", "--", "sh", "-c",
		`trap "trap 'exit 0' TERM; echo term" TERM; echo ready; while :; do sleep 0.05; done`)
	if r.line(t) != "ready" {
		t.Fatal(r.err)
	}
	if err := f.nodes[0].ForceRelease(testkit.Within(t, patience), "leader", f.holder(t, "leader").Token, "a test"); err != nil {
		t.Fatal(err)
	}
	if r.line(t) != "term" {
		t.Fatal(r.err)
	}
	r.send(t, syscall.SIGTERM) // which ends the command
	if code := r.code(t); code != 75 || !strings.Contains(r.err.String(), "a test") || strings.Contains(r.err.String(), "before the command") {
		t.Errorf("code %d: %s", code, r.err)
	}
}

func TestAnElectedCommandThatEndsIsRunAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	r := f.start(t, "elect", "leader", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
	first, second := r.line(t), r.line(t)
	if second <= first {
		t.Errorf("token %s after %s", second, first)
	}
	r.send(t, syscall.SIGTERM)
	if code := r.code(t); code != 128+15 && code != 0 { // while it waited, or while it ran
		t.Errorf("code %d: %s", code, r.err)
	}
	f.refused(t, 127, "PATH", "elect", "leader", "--", "no-such-program")
}
