// Package lockoptions looks, before the first lock, at what the adapters of locks are made with: what a
// library is told of a wrong option later it may keep to itself. Nothing is asked of the group.
package lockoptions

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// Check returns ErrInvalid for a nil c, a name that no lock can have, and options that are none of
// Cluster.Locker: WithShared and WithLimit leave a lock to several holders, and under WithManualRenew
// nobody renews.
func Check(c *holdfast.Cluster, name string, opts []holdfast.Option) error {
	if c == nil {
		return fmt.Errorf("%w: the cluster is nil", holdfast.ErrInvalid)
	}
	_, err := c.Locker(name, func(error) {}, opts...)
	return err
}

// CheckTry is Check for an adapter that does not wait: WithPriority is not for it either.
func CheckTry(c *holdfast.Cluster, name string, opts []holdfast.Option) error {
	if err := Check(c, name, opts); err != nil {
		return err
	}
	over, end := context.WithCancel(context.Background())
	end()
	if _, err := c.TryAcquire(over, name, opts...); errors.Is(err, holdfast.ErrInvalid) {
		return err
	}
	return nil
}
