package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// One process is enough to begin.
func Example() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Config{}) // a single node, in memory
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Do(ctx, "nightly-report", func(ctx context.Context, l *holdfast.Lease) error {
		fmt.Println("only one of us is here")
		return nil
	})
	fmt.Println(err)
	// Output:
	// only one of us is here
	// <nil>
}

// Three nodes of a fleet in one program, as three processes would do it on three machines.
func Example_fleet() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var fleet []*holdfast.Cluster
	var join []string
	for range 3 {
		c, err := holdfast.Open(ctx, holdfast.Config{Join: join, Bootstrap: 1})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		if err := c.Ready(ctx); err != nil {
			log.Fatal(err)
		}
		fleet, join = append(fleet, c), append(join, c.Addr())
	}

	l, err := fleet[0].Acquire(ctx, "orders/writer")
	if err != nil {
		log.Fatal(err)
	}
	_, err = fleet[1].TryAcquire(ctx, "orders/writer")
	fmt.Println("held:", errors.Is(err, holdfast.ErrHeld))
	fmt.Println("current:", fleet[2].Verify(ctx, "orders/writer", l.Token()) == nil)
	// Output:
	// held: true
	// current: true
}

// The token keeps a holder out that was stopped and does not know that it is no longer the holder.
func ExampleLease_Token() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	guard := fence.NewMemory() // at the resource

	old, err := c.Acquire(ctx, "disk")
	if err != nil {
		log.Fatal(err)
	}
	if err := c.ForceRelease(ctx, "disk", old.Token(), "the holder hangs"); err != nil {
		log.Fatal(err)
	}
	next, err := c.Acquire(ctx, "disk")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("new holder:", guard.Check(ctx, "disk", next.Token()))
	fmt.Println("old holder is refused:", errors.Is(guard.Check(ctx, "disk", old.Token()), fence.ErrStale))
	// Output:
	// new holder: <nil>
	// old holder is refused: true
}

// A value is a checkpoint that the next holder finds, whatever became of the one before.
func ExampleLease_Set() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		err := c.Do(ctx, "import", func(ctx context.Context, l *holdfast.Lease) error {
			info, err := c.Inspect(ctx, l.Name())
			if err != nil {
				return err
			}
			fmt.Println("goes on after row", len(info.Value))
			return l.Set(ctx, append(info.Value, '.'))
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// goes on after row 0
	// goes on after row 1
	// goes on after row 2
}
