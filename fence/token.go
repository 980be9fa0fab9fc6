// Package fence is the resource's side of a Holdfast lock: it refuses requests of a former holder.
//
// No lock service can keep a paused or cut-off process from believing that it holds a lock. A
// resource can remember the highest fencing token that it has seen and refuse lower ones: after the
// next holder's first request, the former holder is too late. That is a Guard. Check with every
// write, and where possible inside the write's own transaction.
//
// Memory, File, SQL, Rows and Redis are guards; each can make check and write one step (Do, Update,
// Eval). Handler and Transport carry tokens over HTTP. docs/fencing.md compares the guards and
// their costs, and helps where none is possible.
//
// The package imports the standard library alone, so a service that guards a resource does not link
// Raft.
package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
)

// Token is a fencing token: the number of one grant of a lock, higher than that of every grant of
// the lock before it. Zero is none. It is at most TokenMax, so that JSON and JavaScript hold it
// exactly.
type Token uint64

// TokenMax is the highest possible token.
const TokenMax Token = 1<<53 - 1

// ErrInvalidToken is in the error of a guard for zero or more than TokenMax, of Plausible, and of a
// text, JSON or SQL value that is not a token.
var ErrInvalidToken = errors.New("holdfast: invalid fencing token")

var (
	_ fmt.Stringer             = Token(0)
	_ encoding.TextMarshaler   = Token(0)
	_ encoding.TextUnmarshaler = (*Token)(nil)
	_ json.Marshaler           = Token(0)
	_ json.Unmarshaler         = (*Token)(nil)
	_ sql.Scanner              = (*Token)(nil)
	_ driver.Valuer            = Token(0)
	_ slog.LogValuer           = Token(0)
)

// String is the token in decimal digits.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText writes decimal digits. More than TokenMax is ErrInvalidToken.
func (t Token) MarshalText() ([]byte, error) {
	if t > TokenMax {
		return nil, fmt.Errorf("%w: %d is above %d", ErrInvalidToken, uint64(t), uint64(TokenMax))
	}
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// UnmarshalText reads decimal digits and nothing else; otherwise it returns ErrInvalidToken and
// leaves the token as it was.
func (t *Token) UnmarshalText(text []byte) error {
	const digitsMax = 16 // of TokenMax
	shown := string(text[:min(len(text), digitsMax+8)])
	n, err := strconv.ParseUint(shown, 10, 64)
	if err != nil || len(text) > digitsMax || Token(n) > TokenMax {
		return fmt.Errorf("%w: %q", ErrInvalidToken, shown)
	}
	*t = Token(n)
	return nil
}

// MarshalJSON writes a number. More than TokenMax is ErrInvalidToken.
func (t Token) MarshalJSON() ([]byte, error) { return t.MarshalText() }

// UnmarshalJSON reads a whole number without exponent or fraction; null leaves the token as it was.
func (t *Token) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	return t.UnmarshalText(data)
}

// Scan reads a BIGINT column, or decimal digits. NULL, a negative and more than TokenMax are
// ErrInvalidToken.
func (t *Token) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		if v < 0 || Token(v) > TokenMax {
			return fmt.Errorf("%w: %d", ErrInvalidToken, v)
		}
		*t = Token(v)
		return nil
	case []byte:
		return t.UnmarshalText(v)
	case string:
		return t.UnmarshalText([]byte(v))
	default:
		return fmt.Errorf("%w: cannot scan %T", ErrInvalidToken, src)
	}
}

// Value is an int64, for a BIGINT column. More than TokenMax is ErrInvalidToken.
func (t Token) Value() (driver.Value, error) {
	if t > TokenMax {
		return nil, fmt.Errorf("%w: %d is above %d", ErrInvalidToken, uint64(t), uint64(TokenMax))
	}
	return int64(t), nil
}

// LogValue is the number.
func (t Token) LogValue() slog.Value { return slog.Uint64Value(uint64(t)) }

type contextKey struct{}

// NewContext returns a context that carries t, for Transport and for code below a guarded handler.
// A nil ctx counts as context.Background.
func NewContext(ctx context.Context, t Token) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, contextKey{}, t)
}

// FromContext returns the token that ctx carries; false if it carries none.
func FromContext(ctx context.Context) (Token, bool) {
	if ctx == nil {
		return 0, false
	}
	t, ok := ctx.Value(contextKey{}).(Token)
	return t, ok
}
