package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// eachGuard runs a test on every guard of this package.
func eachGuard(t *testing.T, test func(*testing.T, Guard)) {
	t.Parallel()
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		test(t, NewMemory())
	})
	t.Run("File", func(t *testing.T) {
		t.Parallel()
		test(t, openFile(t, filepath.Join(t.TempDir(), "marks")))
	})
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func wantStale(t *testing.T, err error, resource string, token, highest Token) {
	t.Helper()
	var stale *StaleError
	if !errors.Is(err, ErrStale) || !errors.As(err, &stale) || *stale != (StaleError{resource, token, highest}) {
		t.Errorf("token %v after %v: %v", token, highest, err)
	}
}

// A File that was not opened waited for ever, and the others ended the process.
func TestAGuardThatNobodyMadeAdmitsNothing(t *testing.T) {
	t.Parallel()
	type marks interface {
		Guard
		Highest(ctx context.Context, resource string) (Token, error)
	}
	for _, g := range []marks{new(File), new(SQL), new(Redis)} {
		_, unread := g.Highest(t.Context(), "r")
		for _, err := range []error{g.Check(t.Context(), "r", 5), g.CheckOnce(t.Context(), "r", 5), unread} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%T: %v", g, err)
			}
		}
	}
	f, s, r := new(File), new(SQL), new(Rows)
	_, err1 := f.Floor(t.Context())
	_, err2 := s.Floor(t.Context())
	_, err3 := r.Floor(t.Context())
	_, err4 := r.Highest(t.Context(), 1)
	for i, err := range []error{
		err1, err2, err3, err4, f.Close(), f.Do(t.Context(), "r", 5, func() error { return nil }),
		s.CheckTx(t.Context(), new(sql.Tx), "r", 5), s.Do(t.Context(), "r", 5, func(*sql.Tx) error { return nil }),
		s.CreateTable(t.Context()), r.Update(t.Context(), 1, 5, ""), r.UpdateTx(t.Context(), new(sql.Tx), 1, 5, ""),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestCheckAdmitsTheHolderAgainAndRefusesItsPredecessor(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		ctx := t.Context()
		for _, token := range []Token{5, 5, 9, TokenMax, TokenMax} {
			if err := g.Check(ctx, "r", token); err != nil {
				t.Errorf("token %v: %v", token, err)
			}
		}
		wantStale(t, g.Check(ctx, "r", 9), "r", 9, TokenMax)
		if err := g.Check(ctx, "another", 1); err != nil {
			t.Errorf("another resource: %v", err)
		}
	})
}

func TestCheckOnceAdmitsATokenOnce(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		ctx := t.Context()
		if err := g.CheckOnce(ctx, "r", 5); err != nil {
			t.Error(err)
		}
		wantStale(t, g.CheckOnce(ctx, "r", 5), "r", 5, 5)
		if err := g.Check(ctx, "r", 5); err != nil {
			t.Errorf("Check of the same token: %v", err)
		}
		wantStale(t, g.Check(ctx, "r", 4), "r", 4, 5)
		if err := g.CheckOnce(ctx, "r", 6); err != nil {
			t.Error(err)
		}
	})
}

func TestBadArgumentsLeaveNoMark(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		ctx := t.Context()
		for _, token := range []Token{0, TokenMax + 1, 1<<64 - 1} {
			for _, check := range []func(context.Context, string, Token) error{g.Check, g.CheckOnce} {
				if err := check(ctx, "r", token); !errors.Is(err, ErrInvalidToken) || errors.Is(err, ErrStale) {
					t.Errorf("token %d: %v", uint64(token), err)
				}
			}
		}
		if err := g.Check(ctx, strings.Repeat("r", ResourceMax+1), 9); !errors.Is(err, ErrInvalid) {
			t.Errorf("a resource of too many bytes: %v", err)
		}
		var none context.Context
		if err := g.Check(none, "r", 9); !errors.Is(err, ErrInvalid) {
			t.Errorf("nil context: %v", err)
		}
		ended, end := context.WithCancel(ctx)
		end()
		if err := g.Check(ended, "r", 9); !errors.Is(err, context.Canceled) {
			t.Errorf("ended context: %v", err)
		}
		if err := g.CheckOnce(ctx, "r", 1); err != nil {
			t.Errorf("token 1 after nothing but bad arguments: %v", err)
		}
	})
}

// A CheckOnce that two callers pass with one token is a write done twice.
func TestSixtyFourWritersShareNoTokenAndPassNoStaleOne(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		const writers, tokens = 64, 8
		var admitted [tokens + 1]atomic.Int32
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for token := Token(1); token <= tokens; token++ {
					err := g.CheckOnce(t.Context(), "r", token)
					if err == nil {
						admitted[token].Add(1)
						err = g.Check(t.Context(), "r", token)
					}
					if err != nil && !errors.Is(err, ErrStale) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for token := range admitted {
			if n := admitted[token].Load(); n > 1 {
				t.Errorf("token %d was admitted %d times", token, n)
			}
		}
		if admitted[tokens].Load() != 1 {
			t.Error("the highest token was not admitted")
		}
		wantStale(t, g.Check(t.Context(), "r", tokens-1), "r", tokens-1, tokens)
	})
}

func ExampleMemory() {
	ctx, guard := context.Background(), NewMemory()
	fmt.Println(guard.Check(ctx, "invoices", 33)) // the holder
	fmt.Println(guard.Check(ctx, "invoices", 34)) // the next holder
	fmt.Println(guard.Check(ctx, "invoices", 33)) // the former one wakes up
	// Output:
	// <nil>
	// <nil>
	// holdfast: stale fencing token: 33 for resource "invoices", which has seen 34
}
