package transport

import (
	"errors"
	"io"
	"slices"
)

// Refused reports whether an error says that nothing listens at the address that was dialed.
func Refused(err error) bool { return errors.Is(err, errRefused) }

// Ended reports whether an error says that the other side has closed the connection. A timeout and
// an unreachable network say nothing of the process there.
func Ended(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, errReset, errBroken}, func(sign error) bool { return errors.Is(err, sign) })
}
