package stdlog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of a host: what its package early does is done before the library takes the logger
// over, what its main package does, after.
const (
	early = `package early

import (
	"log"
	"os"
)

type Writer struct{ *os.File }

func init() {
	if os.Getenv("SETS") == "early" {
		log.SetFlags(log.LUTC | log.Lshortfile)
		log.SetPrefix("early: ")
		log.SetOutput(Writer{os.Stdout})
	}
}
`
	program = `package main

import (
	"fmt"
	"log"
	"log/slog"
	"os"

	"example.com/host/early"
	"github.com/holdfast-go/holdfast"
)

func init() {
	switch os.Getenv("SETS") {
	case "late":
		log.SetPrefix("late: ")
		log.SetOutput(early.Writer{os.Stdout})
	case "slog":
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	}
}

func main() {
	_ = holdfast.Config{}
	fmt.Printf("%d %q %T", log.Flags(), log.Prefix(), log.Writer())
}
`
)

// build makes the program, in a module of its own with this one's dependencies.
func build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, requires, _ := strings.Cut(read("go.mod"), "\n")
	write("go.mod", "module example.com/host\n"+requires+
		"\nrequire github.com/holdfast-go/holdfast v0.0.0\nreplace github.com/holdfast-go/holdfast => "+root+"\n")
	write("go.sum", read("go.sum"))
	write("early/early.go", early)
	write("main.go", program)
	run(t, dir, []string{"GOPROXY=off"}, "go", "build", "-mod=mod", "-o", "host.exe", ".")
	return filepath.Join(dir, "host.exe")
}

func run(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// What a host set in an init that ran before dragonboat's was lost: its lines went elsewhere, in
// another form.
func TestWhatTheHostSetOfTheStandardLoggerStays(t *testing.T) {
	t.Parallel()
	host := build(t)
	for sets, want := range map[string]string{
		"nothing": `3 "" *os.File`,
		"early":   `48 "early: " early.Writer`,
		"late":    `3 "late: " early.Writer`,
		"slog":    `0 "" *slog.handlerWriter`,
	} {
		if got := run(t, filepath.Dir(host), []string{"SETS=" + sets}, host); got != want {
			t.Errorf("the host sets %s: the logger has %s, want %s", sets, got, want)
		}
	}
}
