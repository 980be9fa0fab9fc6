package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// spans notes those that have ended, each with the one that it is in.
type spans struct {
	mu   sync.Mutex
	list []string
	open int
}

type spanKey struct{}

func (s *spans) begin(ctx context.Context, span holdfast.Span) (context.Context, func(holdfast.Token, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	in := ""
	if outer, ok := ctx.Value(spanKey{}).(string); ok {
		in = " in " + outer
	}
	return context.WithValue(ctx, spanKey{}, span.Kind.String()), func(token holdfast.Token, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if err != nil {
			token = 0
		}
		s.list = append(s.list, fmt.Sprintf("%v %s%s %v", span.Kind, span.Name, in, token > 0))
	}
}

// taken are the spans since the last call, none of which is open.
func (s *spans) taken(t *testing.T) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != 0 {
		t.Errorf("%d spans have not ended", s.open)
	}
	defer func() { s.list = nil }()
	return s.list
}

func TestASpanIsToldOfEachPieceOfWorkAndFunctionsRunInIt(t *testing.T) {
	t.Parallel()
	var s spans
	c := single(t, func(cfg *holdfast.Config) { cfg.Events.Begin = s.begin })
	ctx := context.WithValue(within(t, time.Minute), spanKey{}, "caller")
	inside := func(kind string, err error) func(context.Context, *holdfast.Lease) error {
		return func(ctx context.Context, l *holdfast.Lease) error {
			if ctx.Value(spanKey{}) != kind || l.Context().Value(spanKey{}) != "caller" {
				t.Errorf("%s: the function runs in %v, its lease in %v", kind, ctx.Value(spanKey{}), l.Context().Value(spanKey{}))
			}
			return err
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		if got := s.taken(t); !slices.Equal(got, want) {
			t.Errorf("%s: spans %q, want %q", what, got, want)
		}
	}
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryAcquire(ctx, "a"); !errors.Is(err, holdfast.ErrHeld) {
		t.Error(err)
	}
	if err := errors.Join(l.Release(ctx), l.Release(ctx)); err != nil {
		t.Error(err)
	}
	check("calls", "acquire a in caller true", "acquire a in caller false", "release a in caller true")
	if err := c.Do(ctx, "a", inside("do", io.EOF)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	check("Do", "acquire a in caller true", "release a in do true", "do a in caller false")
	if err := c.Lead(ctx, "a", inside("tenure", nil)); err != nil {
		t.Error(err)
	}
	check("Lead", "acquire a in caller true", "release a in tenure true", "tenure a in caller true")
	for range 2 {
		if _, err := c.Once(ctx, "a", inside("run", nil)); err != nil {
			t.Error(err)
		}
	}
	check("Once", "acquire a in caller true", "release a in run true", "run a in caller true", "acquire a in caller false")
	func() {
		defer func() { _ = recover() }()
		_ = c.Do(ctx, "a", func(context.Context, *holdfast.Lease) error { panic("user's") })
	}()
	check("a panic", "acquire a in caller true", "release a in do true", "do a in caller false")
}

func TestAPanicInAHookOfSpansCostsItsSpanAlone(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(context.Context, holdfast.Span) (context.Context, func(holdfast.Token, error)){
		"at its begin": func(context.Context, holdfast.Span) (context.Context, func(holdfast.Token, error)) { panic("user's") },
		"at its end": func(ctx context.Context, _ holdfast.Span) (context.Context, func(holdfast.Token, error)) {
			return ctx, func(holdfast.Token, error) { panic("user's") }
		},
		"nothing": func(context.Context, holdfast.Span) (context.Context, func(holdfast.Token, error)) { return nil, nil },
	} {
		c := single(t, func(cfg *holdfast.Config) { cfg.Events.Begin, cfg.Logger = begin, quiet() })
		if err := c.Do(within(t, time.Minute), "lock", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		serves(t, within(t, time.Minute), c)
	}
}
