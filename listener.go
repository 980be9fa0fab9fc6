package holdfast

import (
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// listener takes what the node tells to whatever of the API is concerned: sessions, watches, hooks
// and counters. See seam.Listener.
type listener struct{ c *Cluster }

// Identified gives the sessions and the log their node.
func (l listener) Identified(self fsm.SessionID, log *slog.Logger) {
	l.c.self, l.c.log = self, log
	l.c.keeper.table.Identify(self.Process())
}

// LeaderChanged counts and reports another raft leader.
func (l listener) LeaderChanged(leader string) {
	if l.c.hooks.raftLeader(leader) && leader != "" {
		l.c.counters.leaderChanges.Add(1)
	}
}

// Expired counts and reports the end of a session that was not renewed.
func (l listener) Expired(id fsm.SessionID, late time.Duration) {
	l.c.counters.expiries.Observe(late)
	l.c.hooks.sessionExpired(id.Node.String(), late)
}

// Quorum reports the loss of the majority, or its return.
func (l listener) Quorum(ok bool, missing []string) { l.c.hooks.quorum(ok, missing) }

// Ill counts and reports illnesses.
func (l listener) Ill(ill bool, why string) {
	if ill {
		l.c.counters.illnesses.Add(1)
	}
	l.c.hooks.ill(ill, why)
}

// Foreign reports a change in another group of this name.
func (l listener) Foreign(cluster string, nodes []string) { l.c.hooks.foreign(cluster, nodes) }

// GroupYielded ends the leases with their group.
func (l listener) GroupYielded() { l.c.keeper.table.Forsake(ErrYielded) }

// ReplicaReplaced lets every session go on by itself.
func (l listener) ReplicaReplaced() { l.c.keeper.table.UnshareAll() }

// EndLeases ends all leases.
func (l listener) EndLeases(cause error) (held int) {
	held, _ = l.c.keeper.table.Counts()
	l.c.keeper.loseAll(l.c.apiError(cause))
	return held
}

// Empty reports whether no session is left.
func (l listener) Empty() bool { return l.c.keeper.table.Empty() }

// Stopping has the hooks that wait called, and Failed if the node has failed.
func (l listener) Stopping(failure error) {
	failure = l.c.apiError(failure)
	if failure != nil {
		l.c.log.Error("the node has stopped serving", "error", failure)
	}
	l.c.hooks.end(failure)
}

// Stopped waits for the hook that runs. A hook that does not return is left behind.
func (l listener) Stopped() {
	select {
	case <-l.c.hooks.ended:
	case <-time.After(hooksLast):
		l.c.log.Warn("this node closed while an event hook was still running")
	}
}
