package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What a real server answers is in contrib/internal/fencetest; here is what no good server answers.
func TestRedisAdmitsNothingOnAnAnswerThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{nil, "admitted", int64(1), []any{}, []any{nil}, []any{"yes"}, []any{int64(1), "7"},
		[]any{"stale"}, []any{"stale", "-3"}, []any{[]byte("stale"), int64(3)}} {
		g := NewRedis(func(context.Context, string, []string, ...any) (any, error) { return reply, nil }, "")
		for _, err := range []error{g.Check(t.Context(), "r", 5), g.CheckOnce(t.Context(), "r", 5)} {
			if err == nil || errors.Is(err, ErrStale) {
				t.Errorf("answer %#v: %v", reply, err)
			}
		}
	}
}

func TestRedisUnderstandsClientsThatAnswerBytesAndStrings(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{[]any{"stale", "9"}, []any{[]byte("stale"), []byte("9")}} {
		g := NewRedis(func(context.Context, string, []string, ...any) (any, error) { return reply, nil }, "")
		wantStale(t, g.Check(t.Context(), "r", 5), "r", 5, 9)
	}
	damaged := NewRedis(func(context.Context, string, []string, ...any) (any, error) {
		return []any{"damaged", []byte("x")}, nil
	}, "p:")
	if err := damaged.Check(t.Context(), "r", 5); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "p:r") {
		t.Error(err)
	}
}

func TestRedisSendsNothingForBadArgumentsAndPassesFailuresOn(t *testing.T) {
	t.Parallel()
	calls := 0
	g := NewRedis(func(context.Context, string, []string, ...any) (any, error) { calls++; return nil, io.ErrUnexpectedEOF }, "")
	for _, token := range []Token{0, TokenMax + 1} {
		if err := g.Check(t.Context(), "r", token); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("token %d: %v", uint64(token), err)
		}
	}
	if err := g.Check(t.Context(), strings.Repeat("r", ResourceMax+1), 5); !errors.Is(err, ErrInvalid) || calls > 0 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := g.Check(t.Context(), "r", 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := g.Highest(t.Context(), "r"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	for _, none := range []*Redis{nil, NewRedis(nil, "")} {
		if err := none.Check(t.Context(), "r", 5); !errors.Is(err, ErrInvalid) {
			t.Errorf("without a function: %v", err)
		}
	}
}

func TestRedisGivesTheBoundsAsTextSoThatLuaDoesNotRoundThem(t *testing.T) {
	t.Parallel()
	var sent []string
	g := NewRedis(func(_ context.Context, script string, keys []string, args ...any) (any, error) {
		sent = append(sent, fmt.Sprint(keys, args))
		return []any{"admitted", "value"}, nil
	}, "p:")
	value, err := g.Eval(t.Context(), "r", TokenMax, "return 1", []string{"k"}, 7)
	if err != nil || value != "value" {
		t.Errorf("%v, %v", value, err)
	}
	if err := g.CheckOnce(t.Context(), "r", TokenMax); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(sent), "[[p:r k] [9007199254740991 9007199254740991 7] [p:r] [9007199254740991 9007199254740990]]"; got != want {
		t.Errorf("sent %s", got)
	}
}

// Found by reading: clients hand an error of the script over as the value, and the caller took a write that had
// failed for done.
func TestAnErrorThatTheScriptReturnsIsOne(t *testing.T) {
	t.Parallel()
	failed := errors.New("ERR no stock")
	g := NewRedis(func(context.Context, string, []string, ...any) (any, error) { return []any{"admitted", failed}, nil }, "")
	checks := 0
	g.Observe(func(_ context.Context, c Checked) {
		if checks++; c.Err != nil {
			t.Errorf("the check: %v", c.Err)
		}
	})
	for _, eval := range []func(context.Context, string, Token, string, []string, ...any) (any, error){g.Eval, g.EvalOnce} {
		if value, err := eval(t.Context(), "r", 5, "return redis.error_reply('no stock')", nil); !errors.Is(err, failed) || value != nil {
			t.Errorf("%v, %v", value, err)
		}
	}
	if checks != 2 {
		t.Errorf("%d checks", checks)
	}
}
