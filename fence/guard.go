package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale is in the error of a guard that has seen a higher token; for CheckOnce, also the same
// one.
var ErrStale = errors.New("holdfast: stale fencing token")

// ErrDamaged is in the error of a guard whose marks can't be trusted: a file that was cut, a
// negative number or a text in the column of a database. Nothing is admitted until somebody has
// repaired it, who alone can know which tokens were seen.
var ErrDamaged = errors.New("holdfast: fencing mark damaged")

// ErrInvalid is in the error of a guard that was given arguments it cannot use.
var ErrInvalid = errors.New("holdfast: invalid argument")

// ErrFull is in the error of a Memory that was shown a resource it does not know and has no room
// left for. Those that it knows are guarded as before.
var ErrFull = errors.New("holdfast: fencing guard full")

// ResourceMax is how many bytes the name of a resource has at most.
const ResourceMax = 1024

// MemoryMax is how many resources a Memory guards, unless SetLimit says otherwise: some 80 MB with
// the longest names.
const MemoryMax = 1 << 16

// StaleError says which token a guard refused, and because of which. errors.Is finds ErrStale in
// it.
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

// Guard remembers the highest token that it was shown for each resource, its mark; a mark never
// falls. Methods are safe for concurrent use and may be repeated. nil admits the token and has
// raised the mark to it; *StaleError (errors.Is ErrStale) refuses it. Zero and more than TokenMax
// are ErrInvalidToken and leave no mark. Any other error, such as ctx's when it ends first, admits
// nothing; the mark may have risen to the token all the same.
type Guard interface {
	// Check admits t unless a higher token was seen.
	Check(ctx context.Context, resource string, t Token) error
	// CheckOnce admits t only if neither it nor a higher token was seen.
	CheckOnce(ctx context.Context, resource string, t Token) error
}

// Once is g with CheckOnce in the place of Check, for Handler and others that call Check: each
// token is admitted once for a resource, and a repeated request is refused.
func Once(g Guard) Guard { return once{present(g)} }

type once struct{ Guard }

func (o once) Check(ctx context.Context, resource string, t Token) error {
	return o.CheckOnce(ctx, resource, t)
}

// present is g, or one that fails in the place of a nil one.
func present(g Guard) Guard {
	if g == nil {
		return missing{}
	}
	return g
}

// missing stands for a guard that is nil.
type missing struct{}

func (missing) Check(context.Context, string, Token) error {
	return fmt.Errorf("%w: the guard is nil", ErrInvalid)
}

func (m missing) CheckOnce(ctx context.Context, resource string, t Token) error {
	return m.Check(ctx, resource, t)
}

// Memory is a Guard in this process: it starts without marks, so it protects only a resource that
// lives and dies with it. Each resource takes memory for good, as forgetting a mark would let in
// whom it keeps out: a resource too many is ErrFull. The zero value is ready.
type Memory struct {
	observer
	mu    sync.Mutex
	marks map[string]Token
	limit int // 0: MemoryMax
}

var _ Guard = (*Memory)(nil)

// NewMemory returns a guard without marks, for MemoryMax resources.
func NewMemory() *Memory { return &Memory{} }

// SetLimit bounds how many resources m guards. Those that are there stay, also beyond it. Below 1:
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

// Do runs fn if Check admits t, and lets nobody else pass a check before fn has returned, so that
// check and write are one step. It returns fn's error; the mark has risen then all the same. fn may
// not use this guard.
func (m *Memory) Do(ctx context.Context, resource string, t Token, fn func() error) error {
	checked := validate(ctx, resource, t)
	if checked == nil && fn == nil {
		checked = fmt.Errorf("%w: fn is nil", ErrInvalid)
	}
	defer func() { _ = m.note(ctx, resource, t, checked) }() // without the lock
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
		return fmt.Errorf("%w: it guards %d resources, %.64q is none of them", ErrFull, limit, resource)
	}
	if m.marks == nil {
		m.marks = make(map[string]Token)
	}
	m.marks[resource] = t
	return nil
}

// validate refuses what no guard looks at.
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
