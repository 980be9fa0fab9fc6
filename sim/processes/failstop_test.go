package processes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// failsWithin is how soon a node that cannot go on must say so.
const failsWithin = 5 * time.Second

// sick fails the test unless c has stopped serving for good because of cause, and told so in every
// way.
func sick(t testing.TB, c *holdfast.Cluster, cause error, leases ...*holdfast.Lease) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(failsWithin):
		t.Errorf("Done is open %v after the failure", failsWithin)
		return
	}
	for _, err := range []error{c.Err(), c.Status().Failure} {
		if !errors.Is(err, cause) || errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("the node has failed with %v, want %v", err, cause)
		}
	}
	for _, l := range leases {
		if l.Valid() || l.Remaining() != 0 {
			t.Error("a lease outlived its node")
		}
		for _, err := range []error{l.Err(), context.Cause(l.Context())} {
			if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, cause) {
				t.Errorf("a holder was told %v, want %v", err, cause)
			}
		}
	}
	began := time.Now()
	if _, err := c.Acquire(t.Context(), "refused"); !errors.Is(err, cause) {
		t.Errorf("Acquire after the failure: %v", err)
	}
	if err := c.Ready(t.Context()); !errors.Is(err, cause) {
		t.Errorf("Ready after the failure: %v", err)
	}
	if err := c.Verify(t.Context(), "refused", 1); !errors.Is(err, cause) {
		t.Errorf("Verify after the failure: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("answers after the failure took %v", took)
	}
	if st := c.Status(); st.Ready || st.Held != 0 {
		t.Errorf("status after the failure: %+v", st)
	}
	began = time.Now()
	if err := c.Close(); err != nil {
		t.Errorf("Close after the failure: %v", err)
	}
	if took := time.Since(began); took > testkit.CloseMax {
		t.Errorf("Close after the failure took %v", took)
	}
	if err := c.Err(); !errors.Is(err, cause) {
		t.Errorf("after Close the node says %v, not why it failed", err)
	}
}

// use writes to a node's log until a call fails, at most n times, and returns what was last
// acknowledged.
func use(ctx context.Context, c *holdfast.Cluster, n int) (token holdfast.Token, value string, err error) {
	if err := c.Ready(ctx); err != nil {
		return 0, "", err
	}
	l, err := c.Acquire(ctx, "used")
	if err != nil {
		return 0, "", err
	}
	token = l.Token()
	for i := range n {
		next := fmt.Sprint(token, "/", i)
		if err := l.Set(ctx, []byte(next)); err != nil {
			return token, value, err
		}
		value = next
	}
	return token, value, l.Release(ctx)
}

func TestADiskThatFailsAtAnyCallStopsTheNodeAndForgetsNothing(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	whole := newBrittle()
	c, err := openOn(t, whole, holdfast.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := use(testkit.Within(t, 10*time.Second), c, 10); err != nil {
		t.Fatal(err)
	}
	last := whole.count() // what follows is the order of Close
	testkit.Closed(t, c)
	const samples = 24
	var all sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i := range samples {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			failAt(t, 1+i*last/samples, i%3 == 0)
		})
	}
	all.Wait()
}

// failAt lets call n of a node's disk fail, and with sticky all later ones, and then opens it on
// the mended disk.
func failAt(t *testing.T, n int, sticky bool) {
	disk := newBrittle()
	var what string
	var failed time.Time
	disk.rule(func(i int, call, name string) error {
		if i == n || sticky && i > n {
			if i == n {
				what, failed = fmt.Sprintf("call %d, %s %s", n, call, name), time.Now()
			}
			return syscall.EIO
		}
		return nil
	})
	told := make(chan error, 9)
	cfg := holdfast.Config{Events: holdfast.Events{Failed: func(err error) { told <- err }}}
	var token holdfast.Token
	var value string
	c, err := openOn(t, disk, cfg)
	if err == nil {
		token, value, err = use(testkit.Within(t, 20*time.Second), c, 10)
	}
	disk.rule(nil)
	switch {
	case err == nil:
		t.Errorf("%s: nobody saw the error", what)
	case !errors.Is(err, syscall.EIO):
		t.Errorf("%s: the caller was told %v", what, err)
	}
	if took := time.Since(failed); took > failsWithin {
		t.Errorf("%s: the caller was told after %v", what, took)
	}
	if c != nil {
		sick(t, c, syscall.EIO)
		if len(told) != 1 {
			t.Errorf("%s: the hook was told %d times", what, len(told))
		}
	}
	t.Logf("%s: %v", what, err)
	c, err = openOn(t, restarted(t, disk), cfg)
	if err != nil {
		t.Errorf("%s: not opened again on the mended disk: %v", what, err)
	} else {
		checkUsed(t, what, c, token, value)
		testkit.Closed(t, c)
	}
}

// restarted is what another process finds on a disk.
func restarted(t *testing.T, disk *brittle) *brittle {
	next := newBrittle()
	if _, err := vfs.Clone(disk.FS, next.FS, "/data", "/data"); err != nil {
		t.Error(err)
	}
	return next
}

// checkUsed fails the test if something is missing of what use was told is done.
func checkUsed(t *testing.T, what string, c *holdfast.Cluster, token holdfast.Token, value string) {
	if err := c.Ready(testkit.Within(t, 10*time.Second)); err != nil {
		t.Errorf("%s: on the mended disk: %v", what, err)
		return
	}
	info, err := c.Inspect(testkit.Within(t, 10*time.Second), "used")
	if err != nil || string(info.Value) < value {
		t.Errorf("%s: on the mended disk the value is %q, %q was acknowledged, error %v", what, info.Value, value, err)
	}
	again, _, err := use(testkit.Within(t, 10*time.Second), c, 1)
	if err != nil || again <= token {
		t.Errorf("%s: on the mended disk token %d after %d, error %v", what, again, token, err)
	}
}
