package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
)

// Prefix stands before CertMagic's name of a lock.
const Prefix = "certmagic/"

// patience bounds what must not wait for a majority for ever. CertMagic gives most calls no
// deadline.
const patience = 5 * time.Second

// ErrNotLocked: Unlock or RenewLockLease of what this storage has not locked.
var ErrNotLocked = errors.New("certmagiclock: not locked here")

// Storage is a certmagic.Storage, certmagic.TryLocker and certmagic.LockLeaseRenewer: the data is
// that of the storage it was made with, the locks are those of the fleet. It is safe for concurrent
// use.
type Storage struct {
	certmagic.Storage
	c       *holdfast.Cluster
	options []holdfast.Option

	mu   sync.Mutex
	held map[string]*holding
}

// holding is a lock that callers of this process have. CertMagic unlocks by the name alone, so a
// caller whose lease was lost cannot be told from one that was granted the lock after it.
type holding struct {
	lease *holdfast.Lease
	owed  int // calls of Unlock that are still to come for leases that were lost before this one
}

// New makes a Storage of data. All processes that share the data use one, of the same fleet: one
// that uses the locks of data does not see these. opts are for each lock; ErrInvalid says that one
// is wrong, and WithManualRenew, WithShared, WithLimit and WithPriority are not for it.
func New(data certmagic.Storage, c *holdfast.Cluster, opts ...holdfast.Option) (*Storage, error) {
	if data == nil || c == nil {
		return nil, fmt.Errorf("%w: data or c is nil", holdfast.ErrInvalid)
	}
	if err := lockoptions.CheckTry(c, Prefix, opts); err != nil {
		return nil, err
	}
	return &Storage{Storage: data, c: c, options: opts, held: make(map[string]*holding)}, nil
}

// Lock waits for the lock until ctx ends, first in, first out over all processes.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.c.Acquire(ctx, Prefix+name, s.options...)
	if err != nil {
		return err
	}
	s.keep(name, lease)
	return nil
}

// TryLock returns false where somebody else has the lock or waits for it. Without a majority it
// returns an error after five seconds.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.try(ctx, name)
	if errors.Is(err, holdfast.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.keep(name, lease)
	return true, nil
}

func (s *Storage) try(ctx context.Context, name string) (*holdfast.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.c.TryAcquire(ctx, Prefix+name, s.options...)
}

func (s *Storage) keep(name string, lease *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[name]
	if h == nil {
		h = new(holding)
		s.held[name] = h
	} else {
		h.owed++ // the former lease is lost, or this one had not been granted
	}
	// A later call may have been faster. Tokens of two groups do not compare: the lease of one that yielded is lost.
	if h.lease == nil || !h.lease.Valid() || h.lease.Token() < lease.Token() {
		h.lease = lease
	}
}

// Unlock releases the lock. Its error is ErrNotLocked, or says that the release could not be
// confirmed within five seconds; then it goes on in the background. Unlock of a lost lock returns
// nil, as nothing is left to release. Where another caller of this process was granted a lock that
// one had lost, the lock stays taken until both have unlocked.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	h := s.held[name]
	switch {
	case h == nil:
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	case h.owed > 0:
		h.owed--
		s.mu.Unlock()
		return nil
	}
	delete(s.held, name)
	lease := h.lease
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := lease.Release(ctx); !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

// RenewLockLease makes sure that the lock is still held, and takes it again if it was lost and
// nobody else has it. Its error is ErrNotLocked, a *HeldError where another has it, or says that
// the group did not confirm it within five seconds. CertMagic gives the name alone: where another
// caller of this process was granted the lock that this one had lost, it is that one's lease that is
// renewed, and the error is nil for both. The lease renews itself as long as its process
// lives, so the duration is not needed: a lease that was made as long as CertMagic's pause between
// two attempts, from a minute to 30 days, would keep a dead process's lock for that long.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	h := s.held[name]
	if h == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	lease := h.lease
	s.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := lease.Renew(bounded); !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	again, err := s.try(ctx, name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ours := s.held[name] == h && h.lease == lease
	if ours {
		h.lease = again
	}
	s.mu.Unlock()
	if ours {
		return nil
	}
	bounded, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer end()
	return errors.Join(fmt.Errorf("%w: %q", ErrNotLocked, name), again.Release(bounded)) // unlocked meanwhile
}

// String is for CertMagic's logs.
func (s *Storage) String() string { return fmt.Sprintf("%v with locks of Holdfast", s.Storage) }
