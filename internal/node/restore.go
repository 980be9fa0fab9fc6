package node

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/recovery"
)

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
	n.founder.rivals.former = former{group: report.ClusterID, voters: len(report.Voters), answered: make(map[string]bool)}
	if err := n.founder.save(ctx, func(id *datadir.Identity) { id.Bootstrap, id.Birth = 1, report.Counter }); err != nil {
		return err
	}
	n.cfg.Logger.Warn("this node has restored a backup: its group is a new one", "former", report.ClusterID, "group", report.Group,
		"written", report.Written, "commands", report.Commands, "waits", report.Wait)
	return nil
}

// former is the group of which this node's backup is. What is left of a group that is lost is no reason to
// yield. But the backup may be the latest one of the group that this node has founded before, which lives:
// to the answers of a majority the restored group yields, before it has served.
type former struct {
	group    string // "": this node has restored nothing
	voters   int
	answered map[string]bool // nodes; of the goroutine of runMembership
}

// is reports whether a claim is of the former group, when others than its founder had joined it.
func (f *former) is(c forming.Claim) bool { return f.group != "" && f.group == c.Cluster && !c.Alone }

// rival reports whether the own group may have to yield to another in sight.
func (r *rivals) rival(g forming.Group) bool {
	return !r.former.is(g.Claim) || 2*len(g.Nodes) > r.former.voters && r.waits()
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
	return 2*len(r.former.answered) > r.former.voters && r.waits()
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
