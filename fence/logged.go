package fence

import (
	"context"
	"errors"
	"log/slog"
)

// Logged is g with a log: a refused token as a warning (somewhere a holder was too late), a failing
// guard as an error. Admitted tokens are not logged. A nil log is slog.Default().
func Logged(g Guard, log *slog.Logger) Guard {
	if log == nil {
		log = slog.Default()
	}
	return &logged{present(g), log}
}

type logged struct {
	guard Guard
	log   *slog.Logger
}

func (l *logged) Check(ctx context.Context, resource string, t Token) error {
	return l.note(ctx, resource, t, l.guard.Check(ctx, resource, t))
}

func (l *logged) CheckOnce(ctx context.Context, resource string, t Token) error {
	return l.note(ctx, resource, t, l.guard.CheckOnce(ctx, resource, t))
}

func (l *logged) note(ctx context.Context, resource string, t Token, err error) error {
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		l.log.WarnContext(ctx, "stale fencing token refused", "resource", resource, "token", t, "highest", stale.Highest)
	case err != nil:
		l.log.ErrorContext(ctx, "fencing guard failed", "resource", resource, "token", t, "error", err)
	}
	return err
}
