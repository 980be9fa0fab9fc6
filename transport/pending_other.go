//go:build !unix

package transport

// awaitConnection returns at once: here Accept needs a descriptor only for a connection.
func (s *sockets) awaitConnection() error { return nil }
