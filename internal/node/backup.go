package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/backup"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// backupPatience is how long a backup waits for a majority, and four elections at least.
const backupPatience = 3 * time.Second

// Backup writes the state of the group. Without a majority it is what the local replica has, and says so.
func (n *Node) Backup(ctx context.Context, w io.Writer) error {
	within, cancel := context.WithTimeout(ctx, max(backupPatience, 4*n.cfg.Election))
	group, err := n.near(within)
	cancel()
	switch {
	case err == nil && group == nil:
		return n.backupByAnother(ctx, w)
	case err != nil:
		group = n.replica.Load()
	}
	switch {
	case ctx.Err() != nil:
		return unreached(ctx)
	case n.Stopped() != nil:
		return n.Stopped()
	case err != nil && (group == nil || !errors.Is(err, context.DeadlineExceeded)):
		return err
	}
	members, state := group.Members(), group.Fork()
	if !state.Info().Born { // it waits for Config.TokenFloor: a backup of nothing would take the place of a good one
		return &seam.UnreachedError{Ended: context.DeadlineExceeded}
	}
	stop, done := context.WithCancel(ctx)
	defer done()
	defer context.AfterFunc(n.ctx, done)()
	header := backup.Header{
		Cluster: n.cfg.Cluster, Written: n.clock.Wall(), Node: n.ID(), Unconfirmed: err != nil,
		Voters: slices.Sorted(maps.Values(members.Voters)), Standbys: slices.Sorted(maps.Values(members.Standbys)),
	}
	err = backup.Write(w, header, state, stop.Done())
	if errors.Is(err, fsm.ErrStopped) && ctx.Err() != nil {
		return ctx.Err()
	} else if errors.Is(err, fsm.ErrStopped) {
		return seam.ErrEnded
	}
	return err
}

// backupByAnother has another node's replica make the backup. What is begun is not begun again: a part of it is
// written.
func (n *Node) backupByAnother(ctx context.Context, w io.Writer) error {
	begun := false
	done, err := n.byAnother(ctx, func(ctx context.Context) (err error) {
		begun, err = n.asClient.roamer.Backup(ctx, w)
		return err
	})
	switch {
	case done:
		return err
	case begun:
		return fmt.Errorf("holdfast: the backup was cut short, as this node has a replica of its own now: %w", err)
	}
	return n.Backup(ctx, w)
}

// waited reports whether the leases of the group that this one was recovered from have ended: this
// node has known the recovered group for so long. What it was recovered from may be older than a
// longer MaxTTL, which the nodes know that open it: the longest counts.
func (p *pilot) waited(state *autopilot.State) bool {
	if state.Info.Wait == 0 {
		return true
	}
	wait := max(state.Info.Wait, state.Info.MaxTTL, p.n.cfg.MaxTTL)
	now := p.n.clock.Now()
	if p.recovered == 0 || p.former != state.Cluster { // it may have waited with a group that yielded
		p.recovered, p.former = now, state.Cluster
		p.n.log.Warn("the group was recovered: it grants no lock before the leases of the former group have ended", "wait", wait.String())
	}
	return time.Duration(now-p.recovered) >= wait
}
