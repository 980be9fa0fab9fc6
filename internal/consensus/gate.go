package consensus

import (
	"fmt"
	"sync"
)

// gate keeps calls of the engine apart from its Close, which drops parts of itself that calls still
// use. A call is brief (requests are answered later, by channel); waiting happens outside of the
// gate.
type gate struct {
	mu   sync.RWMutex
	shut bool
}

// pass runs call unless the gate is shut; false if it is. A panic of the engine is an error.
func (g *gate) pass(call func() error) (ok bool, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.shut {
		return false, nil
	}
	return true, guard(call)
}

// close shuts the gate and returns when no call is inside.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// panicError is a panic of the engine in a call of ours.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", ErrInvariant, e.value) }
func (e *panicError) Unwrap() error { return ErrInvariant }

// guard turns a panic of call into an error. It is for the engine's code alone.
func guard(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value}
		}
	}()
	return call()
}
