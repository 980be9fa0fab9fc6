package fence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reader is what every guard of this package can also do.
type reader interface {
	Guard
	Highest(ctx context.Context, resource string) (Token, error)
	Floor(ctx context.Context) (Token, error)
}

func TestTheMarkIsReadBackAsAFloorForANewCluster(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		ctx, r := t.Context(), g.(reader)
		if floor, err := r.Floor(ctx); err != nil || floor != 0 {
			t.Errorf("floor without marks: %v, %v", floor, err)
		}
		for resource, token := range map[string]Token{"a": 7, "b": TokenMax, "c": 1} {
			if err := r.Check(ctx, resource, token); err != nil {
				t.Fatal(err)
			}
		}
		for resource, want := range map[string]Token{"a": 7, "b": TokenMax, "c": 1, "d": 0} {
			if got, err := r.Highest(ctx, resource); err != nil || got != want {
				t.Errorf("%s: %v, %v; want %v", resource, got, err, want)
			}
		}
		if floor, err := r.Floor(ctx); err != nil || floor != TokenMax {
			t.Errorf("floor: %v, %v", floor, err)
		}
		var none context.Context
		if _, err := r.Floor(none); !errors.Is(err, ErrInvalid) {
			t.Errorf("floor with a nil context: %v", err)
		}
		if _, err := r.Highest(ctx, strings.Repeat("r", ResourceMax+1)); !errors.Is(err, ErrInvalid) {
			t.Errorf("highest of a name that is too long: %v", err)
		}
	})
}

// A link in the file's place could otherwise make the guard write wherever its user may.
func TestTheFileGuardDoesNotFollowALinkOutOfItsDirectory(t *testing.T) {
	t.Parallel()
	path, outside := filepath.Join(t.TempDir(), "marks"), filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	foreign := encode(map[string]Token{"r": 1})
	if err := errors.Join(os.WriteFile(outside, foreign, 0o600), os.Remove(path), os.Symlink(outside, path)); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 5); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("through a link: %v", err)
	}
	if got, err := os.ReadFile(outside); err != nil || !bytes.Equal(got, foreign) {
		t.Errorf("the file outside is now %q (%v)", got, err)
	}
}

func TestLoggedShowsRefusalsAndFailuresAndNothingElse(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := Logged(NewMemory(), slog.New(slog.NewTextHandler(&out, nil)))
	if err := g.Check(t.Context(), "r", 9); err != nil || out.Len() > 0 {
		t.Errorf("admitted: %v, log %q", err, out.String())
	}
	wantStale(t, g.CheckOnce(t.Context(), "r", 9), "r", 9, 9)
	if log := out.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "highest=9") {
		t.Errorf("refused: log %q", log)
	}
	out.Reset()
	if err := Logged(nil, slog.New(slog.NewTextHandler(&out, nil))).CheckOnce(t.Context(), "r", 9); !errors.Is(err, ErrInvalid) {
		t.Errorf("a nil guard: %v", err)
	}
	out.Reset()
	if err := Logged(broken{}, slog.New(slog.NewTextHandler(&out, nil))).Check(t.Context(), "r", 9); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if log := out.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "unexpected EOF") {
		t.Errorf("failed: log %q", log)
	}
}

// doer is a guard that check and write can be one step with.
type doer interface {
	Guard
	Do(ctx context.Context, resource string, t Token, fn func() error) error
}

// Between a check and a write that are two steps, the next holder can come and write first. The
// first version of File.Do lost its lock with the file that it replaced, which this test found.
func TestDoLetsNobodyPassWhileItsFunctionRuns(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		ctx, d := t.Context(), g.(doer)
		passed := make(chan error, 1)
		var next doer = d
		if f, ok := g.(*File); ok {
			next = openFile(t, f.path) // as another process
		}
		err := d.Do(ctx, "r", 5, func() error {
			go func() { passed <- next.Check(ctx, "r", 6) }()
			select {
			case err := <-passed:
				t.Errorf("the next holder passed: %v", err)
				passed <- err
				return io.ErrUnexpectedEOF
			case <-time.After(20 * time.Millisecond):
				return io.ErrUnexpectedEOF
			}
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		if err := <-passed; err != nil {
			t.Errorf("the next holder afterwards: %v", err)
		}
		wantStale(t, d.Do(ctx, "r", 5, func() error { t.Error("a stale token ran"); return nil }), "r", 5, 6)
		for _, err := range []error{d.Do(ctx, "r", 7, nil), d.Do(ctx, strings.Repeat("r", ResourceMax+1), 7, func() error { return nil })} {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
		}
		func() {
			defer func() { _ = recover() }()
			_ = d.Do(ctx, "r", 7, func() error { panic("in the middle") })
		}()
		if err := d.Check(ctx, "r", 8); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// broken is a guard whose storage has failed.
type broken struct{}

func (broken) Check(context.Context, string, Token) error     { return io.ErrUnexpectedEOF }
func (broken) CheckOnce(context.Context, string, Token) error { return io.ErrUnexpectedEOF }
