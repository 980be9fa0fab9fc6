package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
)

// holdfastSystem is three nodes with their data on disk, at default timing.
type holdfastSystem struct{}

func (holdfastSystem) obtain(context.Context, *store) error { return nil }

func (holdfastSystem) start(_ context.Context, dir string) (*cluster, error) {
	return embed("holdfast", []string{filepath.Join(dir, "peers")}, three(dir))
}

func (holdfastSystem) leader(ctx context.Context, c *cluster) (int, error) {
	return c.seatOfLeader(ctx)
}

// three are the data directories of three servers.
func three(dir string) (dirs []string) {
	for i := range 3 {
		dirs = append(dirs, filepath.Join(dir, fmt.Sprint(i)))
	}
	return dirs
}

type node struct{ *holdfast.Cluster }

// openHoldfast opens a node of a fleet that meets through a file of addresses.
func openHoldfast(ctx context.Context, s startup) (locks, error) {
	peers := s.Addrs[0]
	c, err := holdfast.Open(ctx, holdfast.Config{
		DataDir: s.Dir, Join: []string{"file+" + peers}, Bootstrap: 3,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	if err := process.AppendLine(peers, c.Addr()); err != nil {
		return nil, err
	}
	return node{c}, c.Ready(ctx)
}

func (n node) leads() bool {
	s := n.Status()
	return s.RaftLeader == s.ID
}

func (n node) caller(context.Context, bool) (caller, error) {
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		l, err := n.Acquire(ctx, "peers/"+name)
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}, nil
}
