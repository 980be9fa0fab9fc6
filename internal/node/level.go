package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// levelPeriod is the time between two lines of the log about what the next level waits for.
const levelPeriod = 10 * time.Minute

// knows is the highest feature level that this process knows.
func (n *Node) knows() uint64 { return cmp.Or(n.cfg.Env.Level, fsm.LevelKnown) }

// groupLevel is the feature level of the group, as applied here, 0 before there is a group.
func (n *Node) groupLevel() (level uint64) {
	if group := n.replica.Load(); group != nil {
		group.Read(func(m *fsm.Machine) { level = m.Level() })
	}
	return level
}

// tooOld is the error of a process on the directory of a node whose group has reached a level that
// this version does not know.
func (n *Node) tooOld() error {
	if id := n.dir.Identity(); id.Level > n.knows() {
		return fmt.Errorf("%w: version %s of this node knows feature level %d, and its group was at level %d when a later version ran on %s: run that version",
			seam.ErrIncompatible, shortened(version()), n.knows(), id.Level, cmp.Or(n.cfg.DataDir, "its data"))
	}
	return nil
}

// tellLevel records the level of the group, and has gossip tell it, by which an older node knows not
// to join.
func (n *Node) tellLevel(group *consensus.Group) {
	level := n.groupLevel()
	if n.dir.Identity().Level < level && level > 1 && group != nil {
		if err := n.founder.save(n.ctx, func(id *datadir.Identity) { id.Level = level }); err != nil {
			n.log.Debug("recording the feature level failed", "error", err)
		}
	}
	if m, ok := n.gossip.Member(n.ID()); group == nil || ok && m.Local && m.GroupLevel == level {
		return
	}
	if err := n.gossip.ChangeMeta(func(m membership.Meta) membership.Meta { m.GroupLevel = level; return m }); err != nil {
		n.log.Debug("updating gossip metadata failed", "error", err)
	}
}

// older is the error of a node that knows no level as high as that of a group in sight: it would
// misread the log of the group.
func (n *Node) older(cluster string) error {
	for _, m := range n.gossip.Members() {
		if m.Here() && m.ClusterID == cluster && m.Phase.Runs() && m.GroupLevel > n.knows() {
			return fmt.Errorf("%w: version %s of this node knows feature level %d, and the group is at level %d, which version %s of node %s knows: update this node",
				seam.ErrIncompatible, shortened(version()), n.knows(), m.GroupLevel, m.Version, n.described(m.Node))
		}
	}
	return nil
}

// outdated adds to the error of a replica that is older than its group which versions those are.
func (n *Node) outdated(err error) error {
	if !errors.Is(err, consensus.ErrUnsupported) {
		return err
	}
	if older := n.older(n.ClusterID()); older != nil {
		return fmt.Errorf("%w: %w", older, err)
	}
	return fmt.Errorf("version %s of this node is too old: %w", shortened(version()), err)
}

// raiseLevel raises the level of the group when all know the next one, and reports whether it did.
func (p *pilot) raiseLevel(ctx context.Context, group *consensus.Group, state autopilot.State, now lease.Instant) bool {
	level, waits := p.leader.Rise(state, now)
	p.rise.Store(&waits)
	if waits != "" && !p.leader.Agreed() { // else it rises by itself
		if _, ok := p.levels.Take(time.Now()); ok {
			p.n.log.Info("the feature level of the group waits", "waits", waits)
		}
	}
	if level == 0 {
		return false
	}
	out, err := group.Propose(ctx, fsm.Encode(fsm.Level{Level: level}))
	switch {
	case errors.Is(err, context.Canceled): // the node closes
		return false
	case err != nil, out.Code != fsm.CodeOK: // it may be carried out yet; Rise decides anew
		p.n.log.Warn("raising the feature level failed", "level", level, "outcome", out.Code.String(), "error", err)
		return false
	}
	p.n.log.Info("raised the feature level of the group: nodes that do not know it cannot join any more", "level", level)
	return true
}
