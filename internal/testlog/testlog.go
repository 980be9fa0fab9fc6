// Package testlog keeps what is logged in a test. It imports none of ours, so tests of all floors use it.
package testlog

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

// String is all lines so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Of are the lines that contain all of what.
func (l *Lines) Of(what ...string) (list []string) {
	for line := range strings.Lines(l.String()) {
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

// Count is how many lines contain all of what.
func (l *Lines) Count(what ...string) int { return len(l.Of(what...)) }
