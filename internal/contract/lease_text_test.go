package contract_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A lease that is printed or logged says which grant it is, and shows nothing of the node's inside.
func TestALeaseIsPrintedAndLoggedAsItsNameTokenAndRest(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "a lock", holdfast.WithTTL(time.Hour))
	logged := func(l *holdfast.Lease) string {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "lease", l)
		return b.String()
	}
	match := func(got, want string) {
		t.Helper()
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s is not %s", got, want)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%s"} {
		match(fmt.Sprintf(verb, l), fmt.Sprintf(`^"a lock" with token %v, 59m[0-9.]+s left$`, l.Token()))
	}
	match(logged(l), fmt.Sprintf(`msg=m lease.name="a lock" lease.token=%v lease.remaining=59m[0-9.]+s\n$`, l.Token()))
	release(t, l)
	match(l.String(), fmt.Sprintf(`^"a lock" with token %v, 0s left$`, l.Token()))
	match(logged(l), `lease.remaining=0s\n$`)
	for _, none := range []*holdfast.Lease{nil, {}} {
		match(none.String(), "^no lease$")
		match(logged(none), `lease="no lease"\n$`)
	}
}

// A zero Lease is what a program has before it has a lock: a look at it ended the process.
func TestAZeroLeaseIsReleased(t *testing.T) {
	t.Parallel()
	var l holdfast.Lease
	if l.Valid() || l.Token() != 0 || l.Remaining() != 0 {
		t.Errorf("valid %v, token %v, remaining %v", l.Valid(), l.Token(), l.Remaining())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for i, err := range []error{l.Err(), l.Renew(t.Context()), l.Set(t.Context(), nil)} {
		if !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
