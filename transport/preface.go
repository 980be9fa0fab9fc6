package transport

import (
	"errors"
	"fmt"
)

// The dialer sends a preface first, inside TLS if there is TLS.
const (
	prefaceSize    = 4
	prefaceVersion = 1
)

var (
	errStrayHTTP   = errors.New("holdfast: a plain HTTP request, not a node")
	errNotHoldfast = errors.New("holdfast: not a node's preface")
)

// appendPreface appends the four bytes that open a connection of the kind.
func appendPreface(b []byte, kind Kind) []byte {
	return append(b, 'H', 'F', prefaceVersion, byte(kind))
}

// parsePreface reads a preface.
func parsePreface(p [prefaceSize]byte) (Kind, error) {
	if p[0] != 'H' || p[1] != 'F' {
		if looksLikeHTTP(p) {
			return 0, errStrayHTTP
		}
		return 0, fmt.Errorf("%w: % x", errNotHoldfast, p)
	}
	if p[2] != prefaceVersion {
		return 0, fmt.Errorf("%w: version %d, this node speaks %d", errNotHoldfast, p[2], prefaceVersion)
	}
	kind := Kind(p[3])
	if !kind.valid() {
		return 0, fmt.Errorf("%w: unknown %v", errNotHoldfast, kind)
	}
	return kind, nil
}

// looksLikeHTTP recognises methods of HTTP/1 and the preface of HTTP/2.
func looksLikeHTTP(p [prefaceSize]byte) bool {
	switch string(p[:]) {
	case "GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI ":
		return true
	}
	return false
}

// strayHTTPAnswer is the answer to a browser or a health check.
func strayHTTPAnswer() string {
	const text = "This is a holdfast node's cluster port, not a web server.\n"
	return fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
}
