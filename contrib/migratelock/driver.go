package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
)

// WaitDefault is how long Lock waits. It is below migrate.DefaultLockTimeout, 15 s.
const WaitDefault = 10 * time.Second

// ErrClosed is the error of Lock after Close, and of a Lock that waits while Close is called.
var ErrClosed = errors.New("migratelock: the driver is closed")

// Driver is a driver of golang-migrate whose lock is one of the fleet. Its other methods are those
// of the driver inside; those that write are refused with holdfast.ErrLost after a loss. Use New.
type Driver struct {
	database.Driver
	// Wait is how long Lock waits. It must be below LockTimeout of migrate.Migrate: that gives up
	// without a word to its driver, which then may get a lock that nobody releases before Close.
	// Raise both where migrations take long. Set it before use. Default WaitDefault.
	Wait time.Duration

	cluster *holdfast.Cluster
	name    string
	opts    []holdfast.Option
	wrong   error // what New found, for Lock

	mu      sync.Mutex
	lease   *holdfast.Lease    // nil: not locked
	waiting context.CancelFunc // ends the Lock that waits; nil: none does
	closed  bool
}

var _ database.Driver = (*Driver)(nil)

// New returns inner with the lock name in the place of its own, which is never taken. All processes
// that migrate one database give the same name. opts are those of Cluster.Locker: what leaves the
// lock to two holders (WithShared, WithLimit) or lets it end in the middle of a migration
// (WithManualRenew) is not for it. What is wrong with c, name or opts, Lock says: ErrInvalid.
func New(inner database.Driver, c *holdfast.Cluster, name string, opts ...holdfast.Option) *Driver {
	return &Driver{Driver: inner, Wait: WaitDefault, cluster: c, name: name, opts: opts, wrong: lockoptions.Check(c, name, opts)}
}

// Open opens the driver inside at url, and returns it with a lock like this one's.
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	opened := New(inner, d.cluster, d.name, d.opts...)
	opened.Wait = d.Wait
	return opened, nil
}

// Lock waits for the lock, for Wait at most. If somebody else has it then, or this driver has it
// already or waits for it, the error is database.ErrLocked. After Close it is ErrClosed; others are
// those of Cluster.Acquire.
func (d *Driver) Lock() error {
	if d.wrong != nil {
		return d.wrong
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.Wait)
	defer cancel()
	if err := d.begin(cancel); err != nil {
		return err
	}
	lease, err := d.cluster.Acquire(ctx, d.name, d.opts...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = nil
	if err == nil {
		d.lease = lease
	}
	switch {
	case d.closed && err == nil: // granted before Close could end the wait
		return errors.Join(ErrClosed, d.release())
	case d.closed:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, holdfast.ErrHeld):
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	return err
}

// begin notes how Close ends the wait that follows, during which d.mu is free.
func (d *Driver) begin(cancel context.CancelFunc) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if d.lease != nil || d.waiting != nil {
		return database.ErrLocked
	}
	d.waiting = cancel
	return nil
}

// Unlock releases the lock. It returns holdfast.ErrLost if the lease was lost before.
// migrate.Migrate then takes the lock for held, and returns ErrLocked from now on: make a new one,
// and look whether the version is dirty.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == nil {
		return database.ErrNotLocked
	}
	return d.release()
}

func (d *Driver) release() error {
	lease := d.lease
	d.lease = nil
	// Whether the group has heard of the end in time does not matter to who migrated: the lease is
	// over, and the lock is freed in the background.
	bounded, cancel := context.WithTimeout(context.Background(), lease.Remaining())
	defer cancel()
	if err := lease.Release(bounded); errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

// Close releases the lock if it is held, ends a Lock that waits, and closes the driver inside.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.waiting != nil {
		d.waiting()
	}
	var err error
	if d.lease != nil {
		err = d.release()
	}
	return errors.Join(err, d.Driver.Close())
}

// held is nil while the lease is valid, and where none was asked for: golang-migrate always does.
func (d *Driver) held() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == nil || d.lease.Valid() {
		return nil
	}
	return d.lease.Err()
}

// Run runs a migration unless the lease was lost. A loss while it runs does not stop it.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.held(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion writes the version unless the lease was lost. After a loss in the middle of a
// migration the version so stays dirty, and nobody migrates further until an operator has looked.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.held(); err != nil {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything in the database unless the lease was lost.
func (d *Driver) Drop() error {
	if err := d.held(); err != nil {
		return err
	}
	return d.Driver.Drop()
}
