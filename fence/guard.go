package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale is in the error of a guard that has seen a higher token; for CheckOnce, also the same
// one. It is holdfast.ErrStaleToken.
var ErrStale = errors.New("holdfast: stale fencing token")

// ErrDamaged is in the error of a guard whose marks cannot be trusted: a truncated file, a negative
// number or a text in the column of a database. The guard admits no token until an operator has
// repaired it; only an operator may know the tokens that were seen.
var ErrDamaged = errors.New("holdfast: fencing mark damaged")

// ErrInvalid is in the error of a guard that received unusable arguments. It is
// holdfast.ErrInvalid.
var ErrInvalid = errors.New("holdfast: invalid argument")

// ErrFull is in the error of a full Memory for an unknown resource. Known resources stay guarded.
var ErrFull = errors.New("holdfast: fencing guard full")

// ResourceMax bounds the name of a resource in bytes.
const ResourceMax = 1024

// MemoryMax is the default limit of resources in a Memory: some 80 MB with the longest names.
const MemoryMax = 1 << 16

// StaleError has the refused token and the higher one. errors.Is finds ErrStale in it.
type StaleError struct {
	Resource       string
	Token, Highest Token // the refused one, and the highest seen
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %v for resource %q, which has seen %v", ErrStale, e.Token, e.Resource, e.Highest)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Guard remembers the highest token of each resource, its mark; a mark never falls. Methods are
// safe for concurrent use and may be repeated. nil admits the token and has raised the mark to it;
// *StaleError (errors.Is ErrStale) refuses it. Zero and more than TokenMax are ErrInvalidToken and
// leave no mark. Any other error, such as ctx's, admits nothing; the mark may have risen to the
// token all the same.
type Guard interface {
	// Check admits t unless a higher token was seen.
	Check(ctx context.Context, resource string, t Token) error
	// CheckOnce admits t only if neither it nor a higher token was seen.
	CheckOnce(ctx context.Context, resource string, t Token) error
}

// Once is g with CheckOnce in place of Check, for Handler and other callers of Check: each token is
// admitted once for a resource, and a repeated request is refused.
func Once(g Guard) Guard {
	return guardFunc(func(ctx context.Context, resource string, t Token, _ bool) error {
		return ask(ctx, g, resource, t, true)
	})
}

// guardFunc is a Guard of one function for both checks.
type guardFunc func(ctx context.Context, resource string, t Token, once bool) error

func (f guardFunc) Check(ctx context.Context, resource string, t Token) error {
	return f(ctx, resource, t, false)
}

func (f guardFunc) CheckOnce(ctx context.Context, resource string, t Token) error {
	return f(ctx, resource, t, true)
}

// ask is g's CheckOnce if once, or its Check. A nil g fails.
func ask(ctx context.Context, g Guard, resource string, t Token, once bool) error {
	switch {
	case g == nil:
		return fmt.Errorf("%w: the guard is nil", ErrInvalid)
	case once:
		return g.CheckOnce(ctx, resource, t)
	}
	return g.Check(ctx, resource, t)
}

// Memory is a Guard in this process. It starts without marks, so it protects only a resource of the
// same lifetime. It keeps each resource forever, since a lost mark would admit stale tokens; a
// resource beyond the limit is ErrFull. The zero value is ready.
type Memory struct {
	observer
	mu    sync.Mutex
	marks map[string]Token
	limit int // 0: MemoryMax
}

var _ Guard = (*Memory)(nil)

// NewMemory returns a guard without marks, for MemoryMax resources.
func NewMemory() *Memory { return &Memory{} }

// SetLimit bounds the resources of m. Known resources stay, also beyond the limit. Below 1:
// MemoryMax.
func (m *Memory) SetLimit(resources int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = max(resources, 0)
}

// Check admits t unless a higher token was seen.
func (m *Memory) Check(ctx context.Context, resource string, t Token) error {
	return m.check(ctx, resource, t, false)
}

// CheckOnce admits t only if neither it nor a higher token was seen.
func (m *Memory) CheckOnce(ctx context.Context, resource string, t Token) error {
	return m.check(ctx, resource, t, true)
}

// Highest is the mark of a resource, zero if it has none.
func (m *Memory) Highest(ctx context.Context, resource string) (Token, error) {
	if err := validate(ctx, resource, TokenMax); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[resource], nil
}

// Floor is the highest mark of all resources, zero if there are none.
func (m *Memory) Floor(ctx context.Context) (Token, error) {
	if ctx == nil {
		return 0, fmt.Errorf("%w: ctx is nil", ErrInvalid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return top(m.marks), ctx.Err()
}

func top(marks map[string]Token) (highest Token) {
	for _, mark := range marks {
		highest = max(highest, mark)
	}
	return highest
}

// Do runs fn if Check admits t. No other check passes before fn has returned, so that check and
// write are one step. It returns fn's error; the mark has risen all the same. fn may not use this
// guard.
func (m *Memory) Do(ctx context.Context, resource string, t Token, fn func() error) error {
	checked := validate(ctx, resource, t)
	if checked == nil && fn == nil {
		checked = fmt.Errorf("%w: fn is nil", ErrInvalid)
	}
	defer func() { _ = m.note(ctx, resource, t, checked) }() // after the unlock
	if checked != nil {
		return checked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if checked = m.raise(resource, t, false); checked != nil {
		return checked
	}
	return fn()
}

func (m *Memory) check(ctx context.Context, resource string, t Token, once bool) error {
	err := validate(ctx, resource, t)
	if err == nil {
		m.mu.Lock()
		err = m.raise(resource, t, once)
		m.mu.Unlock()
	}
	return m.note(ctx, resource, t, err)
}

func (m *Memory) raise(resource string, t Token, once bool) error {
	mark, known := m.marks[resource]
	if err := judge(resource, t, mark, once); err != nil {
		return err
	}
	if limit := cmp.Or(m.limit, MemoryMax); !known && len(m.marks) >= limit {
		return fmt.Errorf("%w: it guards %d other resources, not %.64q", ErrFull, limit, resource)
	}
	if m.marks == nil {
		m.marks = make(map[string]Token)
	}
	m.marks[resource] = t
	return nil
}

// validate refuses arguments that no guard accepts.
func validate(ctx context.Context, resource string, t Token) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: ctx is nil", ErrInvalid)
	case len(resource) > ResourceMax:
		return fmt.Errorf("%w: resource: %d bytes, at most %d are allowed", ErrInvalid, len(resource), ResourceMax)
	case t == 0 || t > TokenMax:
		return fmt.Errorf("%w: %d for resource %q", ErrInvalidToken, uint64(t), resource)
	}
	return ctx.Err()
}

// judge is the rule of every guard.
func judge(resource string, t, highest Token, once bool) error {
	if t < highest || once && t == highest {
		return &StaleError{Resource: resource, Token: t, Highest: highest}
	}
	return nil
}
