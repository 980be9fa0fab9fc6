package fence

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A client that invents paths made the guard of a service grow until the service died.
func TestAMemoryGuardIsBoundedAndGoesOnGuardingWhatItKnows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for limit, m := range map[int]*Memory{MemoryMax: NewMemory(), 10: NewMemory()} {
		if limit != MemoryMax {
			m.SetLimit(limit)
		}
		for i := range limit {
			if err := m.Check(ctx, fmt.Sprint(i), 5); err != nil {
				t.Fatalf("resource %d of %d: %v", i, limit, err)
			}
		}
		ran := false
		for what, err := range map[string]error{
			"Check":     m.Check(ctx, "new", 5),
			"CheckOnce": m.CheckOnce(ctx, "new", 5),
			"Do":        m.Do(ctx, "new", 5, func() error { ran = true; return nil }),
		} {
			if !errors.Is(err, ErrFull) || ran {
				t.Errorf("%s of a resource beyond %d: %v", what, limit, err)
			}
		}
		if err := m.Check(ctx, "0", 6); err != nil {
			t.Errorf("a resource that it knows: %v", err)
		}
		if err := m.Check(ctx, "0", 5); !errors.Is(err, ErrStale) {
			t.Errorf("a stale token for a resource that it knows: %v", err)
		}
		m.SetLimit(limit + 1)
		if err := m.Check(ctx, "new", 5); err != nil {
			t.Errorf("with more room: %v", err)
		}
	}
}

func TestAFullGuardAnswersTheClientThatItCannotTell(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.SetLimit(1)
	srv, through := guarded(t, m)
	if resp, _ := send(t, srv, "known", "5"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d", resp.StatusCode)
	}
	if resp, p := send(t, srv, "invented", "6"); resp.StatusCode != http.StatusServiceUnavailable || p.Type != ProblemFailed {
		t.Errorf("%d, %+v", resp.StatusCode, p)
	}
	if got := through(); len(got) != 1 {
		t.Errorf("%v came through", got)
	}
}

// One request with 2^53-1 shut out every holder, for ever.
func TestAnImplausibleTokenShutsNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour
		m := NewMemory()
		handler := Handler(Plausible(m, ahead), nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		answer := func(token Token) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
			r.Header.Set(Header, token.String())
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		now := func() Token { return Token(time.Now().Unix()) << 20 }
		honest := now() + 7
		for _, lie := range []Token{TokenMax, TokenMax - 1, now() + Token(ahead/time.Second+1)<<20, now() << 1} {
			if code := answer(lie); code != http.StatusBadRequest {
				t.Errorf("token %v: %d", lie, code)
			}
			if mark, err := m.Highest(t.Context(), "/orders"); mark > honest || err != nil {
				t.Errorf("token %v left the mark %v (%v)", lie, mark, err)
			}
			if code := answer(honest); code != http.StatusOK {
				t.Errorf("the holder after %v: %d", lie, code)
			}
		}
		if err := Once(Plausible(m, ahead)).Check(t.Context(), "/orders", TokenMax); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("once: %v", err)
		}
		time.Sleep(30 * 365 * 24 * time.Hour) // of an old group, and a young one
		for _, token := range []Token{honest + 1, now(), now() + 1<<20 - 1, now() + Token(ahead/time.Second)<<20} {
			if code := answer(token); code != http.StatusOK {
				t.Errorf("token %v: %d", token, code)
			}
		}
	})
}

func TestPlausibleOfNothingAdmitsNobody(t *testing.T) {
	t.Parallel()
	if err := Plausible(nil, 0).Check(t.Context(), "r", 1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
