package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// linesMax bounds what is kept of a run; the oldest lines go first.
const linesMax = 100_000

type history struct {
	mu       sync.Mutex
	faults   []string // the schedule
	lines    []string // all
	dropped  int
	attached []attachment
}

type attachment struct {
	name  string
	write func(io.Writer) error
}

func (h *history) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == linesMax {
		h.dropped += linesMax / 2
		h.lines = append(h.lines[:0], h.lines[linesMax/2:]...)
	}
	h.lines = append(h.lines, line)
}

func (s *Sim) since(at time.Time) time.Duration { return at.Sub(s.begin) }

func (s *Sim) note(format string, args ...any) string {
	line := fmt.Sprintf("%12v  ", s.since(time.Now()).Round(time.Microsecond)) + fmt.Sprintf(format, args...)
	s.history.add(line)
	return line
}

func (s *Sim) fault(format string, args ...any) {
	line := s.note("fault: "+format, args...)
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	if len(s.history.faults) < linesMax {
		s.history.faults = append(s.history.faults, line)
	}
}

// fail fails the test with what is noted too.
func (s *Sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Error(s.note("FAILED: "+format, args...))
}

// Note adds a line to the history that is stored if the test fails.
func (s *Sim) Note(format string, args ...any) { s.note(format, args...) }

// Attach adds a file to what is stored if the test fails: write is called after the run.
func (s *Sim) Attach(name string, write func(io.Writer) error) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	s.history.attached = append(s.history.attached, attachment{name, write})
}

// store writes all that is known of a failed run into a directory of its own, and returns its name.
func (h *history) store(dir, test string, opts Options) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir = filepath.Join(dir, fmt.Sprintf("%s-seed-%d", fileName(test), opts.Seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var failed error
	write := func(name string, text string) {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("run.txt", fmt.Sprintf("test %s\nseed %d\nnodes %d\n\n%s=%d go test -run '%s'\n", test, opts.Seed, opts.Nodes, SeedVar, opts.Seed, pattern(test)))
	write("schedule.txt", strings.Join(h.faults, "\n")+"\n")
	head := ""
	if h.dropped > 0 {
		head = fmt.Sprintf("(%d earlier lines are not kept)\n", h.dropped)
	}
	write("history.txt", head+strings.Join(h.lines, "\n")+"\n")
	for _, a := range h.attached {
		var b bytes.Buffer
		failed = errors.Join(failed, a.write(&b))
		write(fileName(a.name)+".txt", b.String())
	}
	return dir, failed
}

// handler is h, with what is Info or more in the history too.
func (s *Sim) handler(h slog.Handler) slog.Handler { return notedLog{Handler: h, s: s} }

type notedLog struct {
	slog.Handler
	s     *Sim
	attrs string
}

func (l notedLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.Handler.Enabled(ctx, level)
}

func (l notedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		text := l.attrs
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		l.s.note("log: %v %s%s", r.Level, r.Message, text)
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

func (l notedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		l.attrs += " " + a.String()
	}
	l.Handler = l.Handler.WithAttrs(attrs)
	return l
}

func (l notedLog) WithGroup(name string) slog.Handler {
	l.Handler = l.Handler.WithGroup(name)
	return l
}

func fileName(test string) string {
	name := []byte(test)
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			name[i] = '_'
		}
	}
	return string(name)
}
