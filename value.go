package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// writer orders the writes of one holder: one at a time, and each only when the group cannot apply
// the last one any more. So a late duplicate of a write never undoes a later write.
type writer struct {
	turn chan struct{} // capacity 1: full while a call writes
	open uint64        // the request of a write that the group may still apply; 0: none
}

func (l *Lease) writer() *writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes == nil {
		l.writes = &writer{turn: make(chan struct{}, 1)}
	}
	return l.writes
}

// Set writes the lock's value: 64 KiB at most, nil removes it. It is refused with ErrLost once the
// lease is over, by the group itself: a stale holder cannot write. If ctx ends first, the error is
// ErrUnknownOutcome: the value may have been written, or may still be written. The next Set of this
// lease settles it, since an earlier value never overwrites a later one. Calls write one after the
// other.
func (l *Lease) Set(ctx context.Context, value []byte) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if len(value) > ValueMax {
		return invalid("value", "%d bytes, at most %d", len(value), ValueMax)
	}
	if err := l.Err(); err != nil {
		return err
	}
	w := l.writer()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return l.c.apiError(&seam.UnreachedError{Ended: ctx.Err()})
	case <-l.c.closing:
		return l.c.stopped()
	}
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.settle(ctx, w); err != nil {
		return err
	}
	return l.set(ctx, w, value)
}

// Value returns the lock's value: what it was at the grant, or what a holder has set since. It is
// read from this node's own replica, without I/O; a client asks its replica. A node that is between two
// replicas waits for the next one, until the lease ends at the latest: nil is that there is no value,
// or that the grant is over. For AcquireAll it is the first name's.
func (l *Lease) Value() []byte {
	q := fsm.QueryName{Name: l.grant.Name(), Token: l.grant.Token()}
	now, err := seam.Ask(context.Background(), l.c.group, seam.Now, q)
	if errors.Is(err, seam.ErrNoGroup) {
		now, err = seam.Ask(l.Context(), l.c.group, seam.Committed, q)
	}
	if err != nil || !now.Current || now.Head == nil {
		return nil
	}
	return now.Head.Value
}

// settle withdraws the last write, which the group has then applied or never will.
func (l *Lease) settle(ctx context.Context, w *writer) error {
	if w.open == 0 {
		return nil
	}
	s := l.grant.Session()
	out, _, err := l.c.propose(ctx, fsm.Withdraw{Session: s.ID(), Acked: s.Acked(), Requests: []uint64{w.open}})
	if err != nil {
		return err
	}
	if out.Code == fsm.CodeTooManyRequests { // no room to remember it
		return refused(out)
	}
	w.open = 0
	return nil
}

// set writes the value under one request number.
func (l *Lease) set(ctx context.Context, w *writer, value []byte) error {
	s := l.grant.Session()
	request, acked, err := s.Begin(l.c.clock.Now())
	if err != nil {
		return l.c.apiError(err)
	}
	out, unknown, err := l.c.propose(ctx, fsm.SetValue{
		Session: s.ID(), Request: request, Acked: acked,
		Name: l.grant.Name(), Token: l.grant.Token(), Value: value,
	})
	return l.wrote(w, request, out, unknown, err)
}

// wrote handles the outcome of a write.
func (l *Lease) wrote(w *writer, request uint64, out fsm.Outcome, unknown bool, err error) error {
	s := l.grant.Session()
	_, state := out.Code.Left()
	answered := err == nil
	switch {
	case !answered:
	case out.Code == fsm.CodeOK, out.Code == fsm.CodeFinished && unknown: // by an earlier attempt
		s.Finish(request)
		return nil
	case out.Code == fsm.CodeStaleToken, state == fsm.RequestSessionLost:
		s.Finish(request)
		l.grant.End(lost(ErrStaleToken))
		if out.Code == fsm.CodeStaleToken {
			return l.Err() // no attempt has written: the session would know of it
		}
		return open(unknown, l.Err())
	default:
		err = open(unknown, refused(out))
	}
	switch {
	case unknown:
		w.open = request
		l.c.keeper.withdraw(s, request)
	case answered && out.Code == fsm.CodeTooManyRequests: // nor has the group room for a withdrawal
		s.Finish(request)
	default:
		l.c.keeper.table.Skip(s, request)
		l.c.keeper.attend()
	}
	return err
}
