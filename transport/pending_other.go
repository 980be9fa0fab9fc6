//go:build !unix

package transport

// awaitConnection has nothing to wait for: Accept fails for want of a descriptor only when there is
// a connection.
func (s *sockets) awaitConnection() error { return nil }
