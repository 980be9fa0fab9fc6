package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// actVar makes the test binary a child; its value says which.
const actVar = "HOLDFAST_PROCESS_ACT"

func TestMain(m *testing.M) {
	act := os.Getenv(actVar)
	if act == "" {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(child(act))
}

func child(act string) int {
	switch act {
	case "echo": // until the end of its input
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Println(lines.Text())
		}
		fmt.Println("the end")
		fmt.Print("half a line")
	case "fail":
		return 3
	case "deaf": // does not end with its input
		fmt.Println("deaf")
		time.Sleep(time.Minute) // real time: a child that outlives the test if nobody ends it
	case "parent": // of a deaf child, whose number it tells
		p, err := Start(command("deaf", func([]byte) {}))
		if err != nil {
			return 1
		}
		fmt.Println(p.PID())
		time.Sleep(time.Minute) // real time: the same
	case "serve":
		err := Serve(os.Stdin, os.Stdout, func(n int) string {
			if n == 0 {
				select {} // no answer
			}
			return strings.Repeat("x", n)
		})
		if err != nil {
			return 1
		}
	}
	return 0
}

func command(act string, heard func([]byte)) *exec.Cmd {
	cmd := Self()
	cmd.Env = append(cmd.Env, actVar+"="+act)
	if heard != nil {
		cmd.Stdout = Lines(heard)
	}
	return cmd
}

// start starts a child whose lines come on the channel.
func start(t *testing.T, act string) (*Process, <-chan string) {
	t.Helper()
	said := make(chan string, 1024)
	p, err := Start(command(act, func(line []byte) { said <- string(line) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, said
}

func TestAProcessHearsWhatIsSentAndItsLinesAreTold(t *testing.T) {
	t.Parallel()
	p, said := start(t, "echo")
	long := strings.Repeat("long", 1<<16)
	for _, line := range []string{"one", "", long} {
		if err := p.Send(line); err != nil {
			t.Fatal(err)
		}
		if got := <-said; got != line {
			t.Errorf("%.20q came back as %.20q, of %d bytes", line, got, len(got))
		}
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
	if err := p.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if last := <-said; last != "the end" || len(said) > 0 {
		t.Errorf("its last line is %q, %d after it", last, len(said))
	}
	if err := p.Send("late"); err == nil {
		t.Error("a process that has ended was sent a line")
	}
}

func TestHowAProcessEndedIsTold(t *testing.T) {
	t.Parallel()
	p, _ := start(t, "fail")
	<-p.Done()
	var code *exec.ExitError
	if !errors.As(p.Err(), &code) || code.ExitCode() != 3 {
		t.Errorf("a process with code 3: %v", p.Err())
	}
	p.Kill() // harmless
	if err := p.Stop(time.Minute); err != p.Err() {
		t.Errorf("a process that had ended was stopped: %v", err)
	}
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p, said := start(t, "deaf")
	<-said
	if err := p.Stop(time.Millisecond); err == nil {
		t.Error("a process that does not end has ended by itself")
	}
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Start(exec.Command("/nowhere/at/all")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestLinesAreWholeHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	var got []string
	w := Lines(func(line []byte) {
		got = append(got, string(line))
		_ = append(line, "harms nothing"...)
	})
	for _, text := range []string{"a", "b\nc", "", "\n\nd\ne\nf"} {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"ab", "c", "", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEachRequestHasItsOwnAnswerUntilTheProcessEnds(t *testing.T) {
	t.Parallel()
	c, err := StartClient[int, string](command("serve", nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	never := c.Begin(0)
	waits := make([]<-chan string, 50)
	for i := range waits {
		waits[i] = c.Begin(i + 1)
	}
	for i, wait := range waits {
		if a, err := c.Await(t.Context(), wait); err != nil || len(a) != i+1 {
			t.Errorf("request %d was answered %q, %v", i+1, a, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Await(over, never); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	last := c.Begin(1)
	for len(last) == 0 { // it is there, and then the process is gone
		runtime.Gosched()
	}
	if err := c.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if a, err := c.Await(t.Context(), last); a != "x" || err != nil {
		t.Errorf("the answer of a process that has ended since: %q, %v", a, err)
	}
	for _, wait := range []<-chan string{never, c.Begin(1)} {
		if a, err := c.Await(t.Context(), wait); !errors.Is(err, ErrEnded) {
			t.Errorf("%q, %v", a, err)
		}
	}
}

func TestARequestThatCannotBeReadEndsServe(t *testing.T) {
	t.Parallel()
	var syntax *json.SyntaxError
	err := Serve(strings.NewReader("?"), io.Discard, func(int) int { return 0 })
	if !errors.As(err, &syntax) {
		t.Error(err)
	}
}
