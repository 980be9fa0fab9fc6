package testkit

import (
	"log/slog"
	"strings"
	"sync"
)

// Lines is what a log's text handler has written. It is safe for concurrent use.
type Lines struct {
	mu sync.Mutex
	b  strings.Builder
}

// Logger writes what is of a level or above.
func (l *Lines) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// Write takes a line.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// Forget drops the lines so far.
func (l *Lines) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// Of are the lines that contain all of what.
func (l *Lines) Of(what ...string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		all := true
		for _, w := range what {
			all = all && strings.Contains(line, w)
		}
		if all {
			list = append(list, line)
		}
	}
	return list
}
