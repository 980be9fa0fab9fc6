package lockoptions_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func TestWhatEndsTheExclusionIsRefused(t *testing.T) {
	t.Parallel()
	c := holdfasttest.Fleet(t, 1)[0]
	for _, x := range []struct {
		what       string
		c          *holdfast.Cluster
		name       string
		opts       []holdfast.Option
		waits, try bool // whether it is for an adapter that waits, and for one that does not
	}{
		{"nothing", c, "x", nil, true, true},
		{"a label", c, "x", []holdfast.Option{holdfast.WithLabel("of a job")}, true, true},
		{"priority", c, "x", []holdfast.Option{holdfast.WithPriority(1)}, true, false},
		{"manual renewal", c, "x", []holdfast.Option{holdfast.WithManualRenew()}, false, false},
		{"shared", c, "x", []holdfast.Option{holdfast.WithShared()}, false, false},
		{"permits", c, "x", []holdfast.Option{holdfast.WithLimit(2)}, false, false},
		{"a TTL of a nanosecond", c, "x", []holdfast.Option{holdfast.WithTTL(1)}, false, false},
		{"no name", c, "", nil, false, false},
		{"no cluster", nil, "x", nil, false, false},
	} {
		for _, check := range []struct {
			err  error
			fits bool
		}{{lockoptions.Check(x.c, x.name, x.opts), x.waits}, {lockoptions.CheckTry(x.c, x.name, x.opts), x.try}} {
			if check.fits != (check.err == nil) || check.err != nil && !errors.Is(check.err, holdfast.ErrInvalid) {
				t.Errorf("%s: %v", x.what, check.err)
			}
		}
	}
	if info, err := c.Inspect(t.Context(), "x"); err != nil || len(info.Past) > 0 || len(info.Holders) > 0 {
		t.Errorf("the group was asked: %+v, %v", info, err)
	}
}
