package holdfast

import (
	"context"
	"slices"
	"strings"
)

// AcquireAll waits until this caller can have all names, and is granted them together, by one
// command. It never has some of them. The set waits in the queue of each name, and nobody who comes
// later overtakes it in any of them. So sets never wait for each other in a cycle, and single
// holders do not starve them. The set has one lease and one token: Release, loss and ForceRelease
// of one name end all. WithValue and Lease.Set write the value of the first name.
//
// There are 1 to 64 names, all different. If there are several they share a {tag}: the first part
// in braces is the same in all, as in "{order-7}/stock" and "{order-7}/bill". WithLimit is
// ErrInvalid; WithShared shares all names. Otherwise it is like Acquire.
func (c *Cluster) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Lease, error) {
	if len(names) == 0 || len(names) > NamesMax {
		return nil, invalid("names", "%d, not 1 to %d", len(names), NamesMax)
	}
	for i, name := range names {
		if err := checkCall(ctx, name); err != nil {
			return nil, err
		}
		switch {
		case slices.Contains(names[:i], name):
			return nil, invalid("names", "%q is there twice", name)
		case i > 0 && (tag(name) == "" || tag(name) != tag(names[0])):
			return nil, invalid("names", "%q and %q share no {tag}", names[0], name)
		}
	}
	others := slices.Clone(names[1:])
	return c.Acquire(ctx, names[0], append(slices.Clip(opts), optionFunc(func(o *options) error {
		if o.limit > 0 {
			return invalid("WithLimit", "cannot be combined with AcquireAll")
		}
		o.others = others
		return nil
	}))...)
}

// tag is what stands in the first braces of a name, "" if nothing does.
func tag(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok {
		return ""
	}
	return tag
}
