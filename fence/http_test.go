package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// guarded starts a server behind a guard; its handler notes the tokens that came through.
func guarded(t *testing.T, g Guard) (srv *httptest.Server, through func() []Token) {
	t.Helper()
	var mu sync.Mutex
	var seen []Token
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := FromContext(r.Context())
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, token)
	})
	srv = httptest.NewServer(Handler(g, func(r *http.Request) string { return r.Header.Get("Resource") }, next))
	t.Cleanup(srv.Close)
	return srv, func() []Token {
		mu.Lock()
		defer mu.Unlock()
		return append([]Token(nil), seen...)
	}
}

func send(t *testing.T, srv *httptest.Server, resource string, tokens ...string) (*http.Response, Problem) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Resource", resource)
	for _, token := range tokens {
		r.Header.Add("fencing-token", token)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p Problem
	if resp.StatusCode != http.StatusOK {
		if err := json.Unmarshal(body, &p); err != nil || p.Status != resp.StatusCode || p.Title == "" || p.Detail == "" {
			t.Errorf("status %d with body %s (%v)", resp.StatusCode, body, err)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("Content-Type %q", kind)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Error("a cache may keep the refusal")
		}
	}
	return resp, p
}

func TestHandlerLetsThroughOnlyOneGoodToken(t *testing.T) {
	t.Parallel()
	srv, through := guarded(t, NewMemory())
	for _, c := range []struct {
		tokens []string
		status int
		kind   string
	}{
		{[]string{"33"}, 200, ""},
		{[]string{"34"}, 200, ""},
		{[]string{"34"}, 200, ""},
		{[]string{"33"}, 412, ProblemStale},
		{nil, 428, ProblemMissing},
		{[]string{"35", "36"}, 400, ProblemInvalid},
		{[]string{"35", "35"}, 400, ProblemInvalid},
		{[]string{"35, 36"}, 400, ProblemInvalid},
		{[]string{""}, 400, ProblemInvalid},
		{[]string{"0"}, 400, ProblemInvalid},
		{[]string{"-1"}, 400, ProblemInvalid},
		{[]string{"9007199254740992"}, 400, ProblemInvalid},
		{[]string{"0x23"}, 400, ProblemInvalid},
	} {
		resp, p := send(t, srv, "r", c.tokens...)
		if resp.StatusCode != c.status || p.Type != c.kind {
			t.Errorf("tokens %q: status %d, type %s", c.tokens, resp.StatusCode, p.Type)
		}
		if c.kind == ProblemStale && (p.Resource != "r" || p.Token != 33 || p.Highest != 34) {
			t.Errorf("stale: %+v", p)
		}
	}
	if got := fmt.Sprint(through()); got != "[33 34 34]" {
		t.Errorf("next saw %s", got)
	}
}

func TestHandlerLetsATokenThroughOnceIfItsGuardDoes(t *testing.T) {
	t.Parallel()
	srv, through := guarded(t, Once(NewMemory()))
	for i, status := range []int{200, 412, 412} {
		if resp, _ := send(t, srv, "r", "5"); resp.StatusCode != status {
			t.Errorf("request %d: status %d", i, resp.StatusCode)
		}
	}
	if resp, _ := send(t, srv, "r", "6"); resp.StatusCode != 200 || fmt.Sprint(through()) != "[5 6]" {
		t.Errorf("the next token: status %d, next saw %v", resp.StatusCode, through())
	}
}

func TestHandlerAnswersThatTheGuardHasFailedWithoutSayingHow(t *testing.T) {
	t.Parallel()
	srv, through := guarded(t, broken{})
	resp, p := send(t, srv, "r", "5")
	if resp.StatusCode != 503 || p.Type != ProblemFailed || strings.Contains(p.Detail, "EOF") || len(through()) > 0 {
		t.Errorf("status %d, %+v", resp.StatusCode, p)
	}
	srv, _ = guarded(t, nil)
	if resp, _ := send(t, srv, "r", "5"); resp.StatusCode != 503 {
		t.Errorf("without a guard: status %d", resp.StatusCode)
	}
	srv, _ = guarded(t, NewMemory())
	if resp, p := send(t, srv, strings.Repeat("r", ResourceMax+1), "5"); resp.StatusCode != 400 || p.Type != ProblemInvalid {
		t.Errorf("a resource that is too long: status %d, %+v", resp.StatusCode, p)
	}
}

// All requests that name none would share one mark, and shut each other out.
func TestHandlerRefusesARequestForNoResource(t *testing.T) {
	t.Parallel()
	g := NewMemory()
	srv, through := guarded(t, g)
	if resp, p := send(t, srv, "", "5"); resp.StatusCode != 400 || p.Type != ProblemInvalid {
		t.Errorf("status %d, %+v", resp.StatusCode, p)
	}
	if mark, err := g.Highest(t.Context(), ""); mark != 0 || err != nil || len(through()) > 0 {
		t.Errorf("mark %v, %v, through came %v", mark, err, through())
	}
}

func TestHandlerTakesThePathForTheResource(t *testing.T) {
	t.Parallel()
	g := NewMemory()
	srv := httptest.NewServer(Handler(g, nil, http.NotFoundHandler()))
	defer srv.Close()
	r, err := http.NewRequestWithContext(NewContext(t.Context(), 7), http.MethodPut, srv.URL+"/a/b?c", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Transport(nil).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if mark, err := g.Highest(t.Context(), "/a/b"); err != nil || mark != 7 || resp.StatusCode != 404 {
		t.Errorf("mark %v (%v), status %d", mark, err, resp.StatusCode)
	}
}

func TestTransportSendsTheTokenAndTellsAStaleOne(t *testing.T) {
	t.Parallel()
	srv, through := guarded(t, NewMemory())
	client := &http.Client{Transport: Transport(srv.Client().Transport)}
	defer client.CloseIdleConnections()
	post := func(token Token) *http.Response {
		r, err := http.NewRequestWithContext(NewContext(t.Context(), token), http.MethodPost, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Resource", "r")
		r.Header.Set(Header, "99") // the context's goes before
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Get(Header) != "99" {
			t.Error("the caller's request was changed")
		}
		return resp
	}
	for _, token := range []Token{5, TokenMax} {
		resp := post(token)
		if err := ResponseError(resp); err != nil || resp.StatusCode != 200 {
			t.Errorf("token %v: status %d, %v", token, resp.StatusCode, err)
		}
		resp.Body.Close()
	}
	resp := post(5)
	defer resp.Body.Close()
	wantStale(t, ResponseError(resp), "r", 5, TokenMax)
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), ProblemStale) {
		t.Errorf("the body afterwards: %q (%v)", body, err)
	}
	if got := fmt.Sprint(through()); got != "[5 9007199254740991]" {
		t.Errorf("next saw %s", got)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportDoesNotSendATokenThatIsNone(t *testing.T) {
	t.Parallel()
	for _, token := range []Token{0, TokenMax + 1} {
		body := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(NewContext(t.Context(), token), http.MethodPost, "http://127.0.0.1:1", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Transport(nil).RoundTrip(r); !errors.Is(err, ErrInvalidToken) || !body.closed {
			t.Errorf("token %d: %v, body closed: %t", uint64(token), err, body.closed)
		}
	}
}

func TestResponseErrorLeavesOtherAnswersAlone(t *testing.T) {
	t.Parallel()
	for _, resp := range []*http.Response{
		nil,
		{StatusCode: 412},
		{StatusCode: 412, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("If-Match"))},
		{StatusCode: 412, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(`{"type":"about:blank"}`))},
		{StatusCode: 412, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(`{`))},
	} {
		if err := ResponseError(resp); err != nil {
			t.Errorf("%+v: %v", resp, err)
		}
	}
}

func ExampleHandler() {
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := FromContext(r.Context())
		fmt.Fprintf(w, "written under %v", token)
	})
	srv := httptest.NewServer(Handler(NewMemory(), nil, orders))
	defer srv.Close()

	client := &http.Client{Transport: Transport(nil)}
	for _, token := range []Token{33, 34, 33} { // the holder, the next one, and the former one wakes up
		ctx := NewContext(context.Background(), token) // of a lease: NewContext(lease.Context(), lease.Token())
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL+"/orders/7", nil)
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			panic(err)
		}
		fmt.Println(resp.Status, ResponseError(resp))
		resp.Body.Close()
	}
	// Output:
	// 200 OK <nil>
	// 200 OK <nil>
	// 412 Precondition Failed holdfast: stale fencing token: 33 for resource "/orders/7", which has seen 34
}
