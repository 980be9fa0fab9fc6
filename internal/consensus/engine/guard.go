package engine

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/consensus/report"
)

// ErrInvariant is the cause when the engine found its own state broken.
var ErrInvariant = report.ErrInvariant

// Shard is the engine's id of the group.
const Shard = 1

// panicError is a panic of the engine in a call of this package.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", ErrInvariant, e.value) }
func (e *panicError) Unwrap() error { return ErrInvariant }

// Guard turns a panic of call into an error. It is for calls of the engine alone.
func Guard(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value}
		}
	}()
	return call()
}

// Park holds the calling goroutine forever.
func Park() { select {} }
