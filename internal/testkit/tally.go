package testkit

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Tally is a log handler that counts what an operator would see, and keeps some of it.
type Tally struct {
	mu    sync.Mutex
	lines int
	texts []string
}

// Enabled keeps warnings and errors.
func (l *Tally) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs keeps no attributes.
func (l *Tally) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup keeps no groups.
func (l *Tally) WithGroup(string) slog.Handler { return l }

// Handle counts a line.
func (l *Tally) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + slog.Attr{Key: a.Key, Value: a.Value.Resolve()}.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	if len(l.texts) < 1000 {
		l.texts = append(l.texts, text)
	}
	return nil
}

// Count returns how many lines there were, and how many of those kept contain text.
func (l *Tally) Count(text string) (lines, found int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.texts {
		if strings.Contains(line, text) {
			found++
		}
	}
	return l.lines, found
}

// String is what was kept, a line each.
func (l *Tally) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.texts, "\n")
}
