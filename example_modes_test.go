package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
)

// take acquires a lock, or ends the example.
func take(ctx context.Context, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	l, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return l
}

// Readers share; a writer waits for them, and readers that come later wait for the writer.
func ExampleWithShared() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	reader := take(ctx, c, "catalog", holdfast.WithShared())
	other := take(ctx, c, "catalog", holdfast.WithShared())
	fmt.Println(reader.Valid() && other.Valid())

	written := make(chan *holdfast.Lease)
	go func() { written <- take(ctx, c, "catalog") }()
	<-reader.Wanted() // the writer waits
	_, err := c.TryAcquire(ctx, "catalog", holdfast.WithShared())
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	_ = reader.Release(ctx)
	_ = other.Release(ctx)
	fmt.Println((<-written).Valid())
	// Output:
	// true
	// true
	// true
}

// At most ten units of work on the database at a time, in the whole fleet; a heavy job takes four
// of them.
func ExampleWithLimit() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	take(ctx, c, "database", holdfast.WithLimit(10), holdfast.WithWeight(4))
	take(ctx, c, "database", holdfast.WithLimit(10), holdfast.WithWeight(4))
	_, err := c.TryAcquire(ctx, "database", holdfast.WithLimit(10), holdfast.WithWeight(4))
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	_, err = c.Acquire(ctx, "database", holdfast.WithLimit(5))
	fmt.Println(errors.Is(err, holdfast.ErrLimitMismatch))
	// Output:
	// true
	// true
}

// The next release of the program allows three at a time. Both releases go on side by side.
func ExampleCluster_ResizeLimit() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	old := take(ctx, c, "database", holdfast.WithLimit(2), holdfast.WithWeight(2))
	fmt.Println(c.ResizeLimit(ctx, "database", 3))
	next := take(ctx, c, "database", holdfast.WithLimit(3))
	_, err := c.TryAcquire(ctx, "database", holdfast.WithLimit(2))
	fmt.Println(old.Valid(), next.Valid(), errors.Is(err, holdfast.ErrHeld))
	// Output:
	// <nil>
	// true true true
}

// A waiter with a higher priority is served first, though it came last.
func ExampleWithPriority() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	l := take(ctx, c, "press")
	served := make(chan string, 2)
	queue := func(label string, priority int) {
		changes := c.Watch(ctx, "press") // begins here
		go func() {
			l := take(ctx, c, "press", holdfast.WithPriority(priority))
			served <- label
			_ = l.Release(ctx)
		}()
		for change := range changes {
			if change.Kind == holdfast.EventQueued {
				break
			}
		}
	}
	queue("batch", 0)
	queue("a customer waits", 1)
	_ = l.Release(ctx)
	fmt.Println(<-served)
	fmt.Println(<-served)
	// Output:
	// a customer waits
	// batch
}

// The report is made once in a while, however many ask for it.
func ExampleWithMinHold() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	_ = take(ctx, c, "report", holdfast.WithMinHold(time.Hour)).Release(ctx)
	_, err := c.TryAcquire(ctx, "report")
	fmt.Println(errors.Is(err, holdfast.ErrHeld))

	begin := time.Now()
	_ = take(ctx, c, "digest", holdfast.WithMinHold(100*time.Millisecond)).Release(ctx)
	_ = take(ctx, c, "digest").Release(ctx)
	fmt.Println(time.Since(begin) >= 99*time.Millisecond) // never early but for the drift of clocks
	// Output:
	// true
	// true
}

// The holder was lost, and a write of it may be on its way still: nobody follows at once.
func ExampleWithLockDelay() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	began := time.Now()
	l := take(ctx, c, "printer", holdfast.WithLockDelay(100*time.Millisecond), holdfast.WithMaxHold(time.Millisecond))
	<-l.Done()
	fmt.Println(errors.Is(l.Err(), holdfast.ErrLost))
	_ = take(ctx, c, "printer").Release(ctx)
	fmt.Println(time.Since(began) > 99*time.Millisecond) // never early but for the drift of clocks
	// Output:
	// true
	// true
}

// An operator takes the lock from a holder that hangs. Everybody sees why.
func ExampleCluster_ForceRelease() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	l := take(ctx, c, "export", holdfast.WithLabel("job 17"))
	if err := c.ForceRelease(ctx, "export", l.Token(), "ticket 4711: it hangs"); err != nil {
		log.Fatal(err)
	}
	<-l.Done()
	fmt.Println(errors.Is(l.Err(), holdfast.ErrForced))
	info, err := c.Inspect(ctx, "export")
	if err != nil {
		log.Fatal(err)
	}
	for _, past := range info.Past {
		fmt.Printf("%s: %v, %s\n", past.Label, past.How, past.Reason)
	}
	// Output:
	// true
	// job 17: forced, ticket 4711: it hangs
}
