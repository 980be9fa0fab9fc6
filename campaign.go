package holdfast

import (
	"context"
	"sync/atomic"
)

// Campaign stands for election in the background: for programs that ask whether they lead, instead
// of giving Lead a function. It is safe for concurrent use.
type Campaign struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
	lease  atomic.Pointer[Lease]
}

// Campaign stands for the election name until Close, the end of ctx or the end of the node. It
// returns at once; IsLeader tells when this node leads. After a loss it stands again, after a pause
// as in Lead. The options are those of Lead; WithNoWait is ErrInvalid, as a campaign waits. The
// lease inherits the values of ctx.
func (c *Cluster) Campaign(ctx context.Context, name string, opts ...Option) (*Campaign, error) {
	o, err := c.candidate(ctx, "Campaign", name, opts)
	if err != nil {
		return nil, err
	}
	if err := o.alwaysWaits("Campaign"); err != nil {
		return nil, err
	}
	standing, cancel := context.WithCancel(ctx)
	k := &Campaign{cancel: cancel, done: make(chan struct{})}
	if !c.goRun(func(context.Context) { k.run(standing, c, name, o) }) {
		cancel()
		return nil, c.stopped()
	}
	return k, nil
}

// run leads again and again: Lead returns nil only where the leadership was given up.
func (k *Campaign) run(ctx context.Context, c *Cluster, name string, o options) {
	defer close(k.done)
	defer k.cancel()
	tenure := func(ctx context.Context, l *Lease) error {
		k.lease.Store(l)
		defer k.lease.Store(nil)
		<-ctx.Done()
		return nil
	}
	var err error
	for err == nil && ctx.Err() == nil {
		err = c.lead(ctx, name, tenure, o)
	}
	switch stopped := c.stopped(); {
	case ctx.Err() != nil:
	case stopped != nil:
		k.err = stopped
	default:
		k.err = err
		c.log.Error("a campaign has ended", "election", name, "error", err)
	}
}

// IsLeader reports whether this node leads now. It is as cheap as Lease.Valid, and means the same:
// what was begun while it was true may still arrive late, so present the token of Lease.
func (k *Campaign) IsLeader() bool { return k.Lease() != nil }

// Lease is the leadership: its token, its context, its value. It is nil while this node does not
// lead.
func (k *Campaign) Lease() *Lease {
	l := k.lease.Load()
	if l == nil || !l.Valid() {
		return nil
	}
	return l
}

// Resign gives the leadership up, as Lease.Release does, and stands again behind those who wait. It
// returns nil where this node does not lead.
func (k *Campaign) Resign(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	l := k.lease.Load()
	if l == nil {
		return nil
	}
	return l.Release(ctx)
}

// Done is closed when the campaign is over: after Close, the end of its context, the end of the
// node, or a refusal that a repeat would not change.
func (k *Campaign) Done() <-chan struct{} { return k.done }

// Err is nil until Done is closed and after Close or the end of the context; else it says why the
// campaign is over: ErrClosed or the failure of the node, ErrLimitMismatch where the name is in use
// as a semaphore.
func (k *Campaign) Err() error {
	select {
	case <-k.done:
		return k.err
	default:
		return nil
	}
}

// Close ends the campaign, and gives the leadership up if this node has it. A second call is
// harmless. If ctx ends first, Close returns its error, and the campaign ends in the background.
func (k *Campaign) Close(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	k.cancel()
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
