// Package holdfast is as much of the real one as the analyser's test needs.
package holdfast

import "context"

type Cluster struct{}

type Lease struct{}

type Token uint64

func (c *Cluster) Acquire(ctx context.Context, name string) (*Lease, error)    { return nil, nil }
func (c *Cluster) TryAcquire(ctx context.Context, name string) (*Lease, error) { return nil, nil }
func (c *Cluster) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error) error {
	return nil
}

func (l *Lease) Token() Token                      { return 0 }
func (l *Lease) Valid() bool                       { return false }
func (l *Lease) Context() context.Context          { return nil }
func (l *Lease) Release(ctx context.Context) error { return nil }
