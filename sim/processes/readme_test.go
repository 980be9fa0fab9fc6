package processes_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
)

// turn is a line of the README's program: a process says that it holds the lock.
type turn struct{ process, token int }

// The README's first program, run as one process, could not show what a lock is: each process was a
// fleet of its own.
func TestTheProgramOfTheReadmeTakesTurnsAndHandsOver(t *testing.T) {
	t.Parallel()
	binary := readmeProgram(t)
	turns := make(chan turn, 1000)
	var list [3]*process.Process
	for i := range list {
		list[i] = runReadme(t, binary, i+1, turns)
	}
	seen := make(map[int]bool)
	next := func() turn {
		t.Helper()
		select {
		case got := <-turns:
			if seen[got.token] {
				t.Fatalf("token %d was granted twice", got.token)
			}
			seen[got.token] = true
			return got
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody has the lock")
		}
		return turn{}
	}
	missing := map[int]bool{1: true, 2: true, 3: true}
	for len(missing) > 0 {
		delete(missing, next().process)
	}
	killed := next()
	list[killed.process-1].Kill()
	missing = map[int]bool{1: true, 2: true, 3: true}
	delete(missing, killed.process)
	for len(missing) > 0 {
		if got := next(); got.token > killed.token {
			delete(missing, got.process)
		}
	}
}

// readmeProgram builds the first program of the README, on ports that are free.
func readmeProgram(t *testing.T) (binary string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, begun := strings.Cut(string(text), "```go\npackage main\n")
	program, _, ended := strings.Cut(program, "```\n")
	const ports = "127.0.0.1:764"
	if !begun || !ended || !strings.Contains(program, ports) {
		t.Fatal("the README has no program, or it is no fleet on this machine")
	}
	program = strings.ReplaceAll("package main\n"+program, ports, fmt.Sprintf("127.0.0.1:%d", freePorts(t)))
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// freePorts answers a number whose continuations 1, 2 and 3 are free ports, below those that the
// system gives to clients.
func freePorts(t *testing.T) int {
	t.Helper()
	free := func(port int) bool {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		stream, err := net.Listen("tcp", at)
		if err != nil {
			return false
		}
		defer stream.Close()
		packets, err := net.ListenPacket("udp", at)
		if err != nil {
			return false
		}
		return packets.Close() == nil
	}
	for range 100 {
		if n := 1000 + rand.IntN(1900); free(10*n+1) && free(10*n+2) && free(10*n+3) {
			return n
		}
	}
	t.Fatal("no ports are free")
	return 0
}

// runReadme runs the program as one of its processes until the test is over.
func runReadme(t *testing.T, binary string, n int, turns chan<- turn) *process.Process {
	t.Helper()
	cmd := exec.Command(binary, strconv.Itoa(n))
	var log bytes.Buffer // read when the process has ended
	cmd.Stderr = &log
	cmd.Stdout = process.Lines(func(line []byte) {
		words := strings.Fields(string(line))
		token, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			t.Errorf("process %d says %q", n, line)
			return
		}
		turns <- turn{n, token}
	})
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("process %d:\n%s", n, log.Bytes())
		}
	})
	return p
}
