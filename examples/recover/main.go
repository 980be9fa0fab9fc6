// Recover is a drill in one process: three nodes, two of which lose their disks, a recovery from the
// third, and the tokens before and after it.
//
//	go run ./examples/recover
//
// docs/operations.md#when-the-majority-is-lost-for-good says what must be true before a recovery; the
// command for the real case is `holdfast recover`.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := drill(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// drill loses two of three disks and recovers the group from the third.
func drill(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	root, err := os.MkdirTemp("", "holdfast-drill")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	dir := func(i int) string { return filepath.Join(root, fmt.Sprint("node", i)) }
	before, err := former(ctx, dir, out)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "The machines of node1 and node2 burn down, disks and all.")
	for _, lost := range []int{1, 2} {
		if err := os.RemoveAll(dir(lost)); err != nil {
			return err
		}
	}
	report, err := holdfast.Recover(ctx, holdfast.RecoverConfig{DataDir: dir(0), Unseen: true, AllStopped: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, report)
	first, err := open(ctx, dir(0), nil)
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := open(ctx, dir(1), []string{first.Addr()})
	if err != nil {
		return err
	}
	defer second.Close()
	if err := second.Ready(ctx); err != nil {
		return err
	}
	lease, err := second.Acquire(ctx, "config")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Before: token %d. After: token %d, value %q, on a node that has joined.\n", before, lease.Token(), lease.Value())
	if lease.Token() <= before {
		return fmt.Errorf("token %d is not above %d", lease.Token(), before)
	}
	return lease.Release(ctx)
}

// former runs the group that is lost, and returns the token of its last grant.
func former(ctx context.Context, dir func(int) string, out io.Writer) (holdfast.Token, error) {
	var nodes []*holdfast.Cluster
	defer func() {
		for _, c := range nodes {
			c.Close()
		}
	}()
	var join []string
	for i := range 3 {
		c, err := open(ctx, dir(i), join)
		if err != nil {
			return 0, err
		}
		nodes, join = append(nodes, c), append(join, c.Addr())
	}
	for _, c := range nodes {
		if err := c.Ready(ctx); err != nil {
			return 0, err
		}
	}
	lease, err := nodes[0].Acquire(ctx, "config", holdfast.WithValue([]byte("precious")))
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "Three nodes serve. Lock \"config\" has token %d and value %q.\n", lease.Token(), lease.Value())
	return lease.Token(), lease.Release(ctx)
}

// open opens a node: the first of the fleet has no join.
func open(ctx context.Context, dir string, join []string) (*holdfast.Cluster, error) {
	bootstrap := 1
	if join != nil {
		bootstrap = -1
	}
	quiet := slog.New(slog.DiscardHandler) // the drill loses nodes on purpose
	return holdfast.Open(ctx, holdfast.Config{DataDir: dir, Join: join, Bootstrap: bootstrap, Logger: quiet})
}
