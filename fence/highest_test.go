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
	if err := Logged(broken{}, slog.New(slog.NewTextHandler(&out, nil))).Check(t.Context(), "r", 9); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if log := out.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "unexpected EOF") {
		t.Errorf("failed: log %q", log)
	}
}

// broken is a guard whose storage has failed.
type broken struct{}

func (broken) Check(context.Context, string, Token) error     { return io.ErrUnexpectedEOF }
func (broken) CheckOnce(context.Context, string, Token) error { return io.ErrUnexpectedEOF }
