package fence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// Transport sends the token of the request's context (NewContext) in the header Fencing-Token,
// replacing any present one. A request without one passes unchanged. A nil base is
// http.DefaultTransport. A token that no guard can admit is an error (errors.Is ErrInvalidToken).
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip sends a copy of the request: its headers are the caller's.
func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t, ok := FromContext(r.Context())
	if !ok {
		return c.base.RoundTrip(r)
	}
	if t == 0 || t > TokenMax {
		err := fmt.Errorf("%w: %d", ErrInvalidToken, uint64(t))
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	sent := r.Clone(r.Context())
	sent.Header.Set(Header, t.String())
	return c.base.RoundTrip(sent)
}

// CloseIdleConnections closes those of base, for http.Client.
func (c *transport) CloseIdleConnections() {
	if closer, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// ResponseError is the *StaleError in an answer of Handler, nil for any other answer. It reads the
// body of a 412, at most 64 KiB, and puts it back; the caller closes it in any case.
func ResponseError(r *http.Response) error {
	const bodyMax = 64 << 10
	if r == nil || r.StatusCode != http.StatusPreconditionFailed || r.Body == nil {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/problem+json" {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, bodyMax))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), r.Body), r.Body}
	var p Problem
	if err != nil || json.Unmarshal(data, &p) != nil || p.Type != ProblemStale {
		return nil
	}
	return &StaleError{Resource: p.Resource, Token: p.Token, Highest: p.Highest}
}
