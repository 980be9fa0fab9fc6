package node

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/recovery"
)

// formerLook is how long a node that has restored a backup asks the nodes of the former group that it sees
// whether that lives, however few they are. An election of theirs takes less.
const formerLook = 5 * time.Second

// restore puts Config.Restore into a directory in memory. The node is the founder of that group, alone until
// others join: started again with the same configuration, it finds the group that it made the first time, and
// the second one yields to that.
func (n *Node) restore(ctx context.Context) error {
	dir, report, err := recovery.InMemory(ctx, recovery.Config{
		From: n.cfg.Restore, Cluster: n.cfg.Cluster, Now: n.clock.Wall, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	n.dir, n.fleeting = dir, true
	n.founder.rivals.former = former{
		group: report.ClusterID, voters: len(report.Voters), answered: make(map[string]bool),
		looks: sync.OnceValue(func() time.Time { return time.Now().Add(formerLook) }),
	}
	if err := n.founder.save(ctx, func(id *datadir.Identity) { id.Bootstrap, id.Birth = 1, report.Counter }); err != nil {
		return err
	}
	n.cfg.Logger.Warn("this node has restored a backup: its group is a new one", "former", report.ClusterID, "group", report.Group,
		"written", report.Written, "commands", report.Commands, "waits", report.Wait.String())
	return nil
}

// former is the group of which this node's backup is. What is left of a group that is lost is no reason to
// yield. But the backup may be the latest one of the group that this node has founded before, which lives:
// the restored group yields before it has served, to an answer that says that a majority of the voters of now has
// answered its sender, or to those of a majority of the voters that the backup has.
type former struct {
	group    string // "": this node has restored nothing
	voters   int
	looks    func() time.Time // until then any node of the group is asked: formerLook from the first call on
	answered map[string]bool  // nodes; of the goroutine of runMembership
}

// is reports whether a claim is of the former group, when others than its founder had joined it.
func (f *former) is(c forming.Claim) bool { return f.group != "" && f.group == c.Cluster && !c.Alone }

// rival reports whether the own group may have to yield to another in sight.
func (r *rivals) rival(g forming.Group) bool {
	if !r.former.is(g.Claim) {
		return true
	}
	asks := time.Now().Before(r.former.looks())
	return (asks || 2*len(g.Nodes) > r.former.voters) && r.waits()
}

// yields reports whether the own group yields after an answer.
func (r *rivals) yields(m forming.Message) bool {
	if !claimOf(r.n.dir.Identity()).YieldsTo(m.Claim()) {
		return false
	}
	if !r.former.is(m.Claim()) {
		return true
	}
	r.former.answered[m.From] = true
	return (m.Lives || 2*len(r.former.answered) > r.former.voters) && r.waits()
}

// hearsMajority reports whether a majority of the voters answers this node's replica now.
func (n *Node) hearsMajority(ctx context.Context) bool {
	group, _ := n.Proposer.Current()
	if group == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return group.Barrier(ctx) == nil
}

// waits reports whether the restored group has granted nothing yet.
func (r *rivals) waits() bool {
	group := r.n.replica.Load()
	if group == nil {
		return true
	}
	waits := false
	group.Read(func(m *fsm.Machine) { waits = !m.Info().Born || m.Info().Wait > 0 })
	return waits
}
