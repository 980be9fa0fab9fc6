package holdfast

import (
	"context"
	"fmt"
	"log/slog"
)

// panicSafeHandler is a handler of the user's. It is called from goroutines of the node and of its
// engine, where a panic of it would end the process: it costs the line.
type panicSafeHandler struct{ slog.Handler }

// Enabled reports whether lines of a level are wanted.
func (h panicSafeHandler) Enabled(ctx context.Context, level slog.Level) (ok bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

// Handle writes a line.
func (h panicSafeHandler) Handle(ctx context.Context, line slog.Record) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: the handler of Config.Logger panicked: %v", value)
		}
	}()
	return h.Handler.Handle(ctx, line)
}

// WithAttrs is a handler that adds attributes.
func (h panicSafeHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return panicSafeHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is a handler that opens a group.
func (h panicSafeHandler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return panicSafeHandler{h.Handler.WithGroup(name)}
}
