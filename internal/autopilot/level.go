package autopilot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// LevelPauseDefault is how long all must have known the next level before the group rises to it.
// Meanwhile the fleet may go back to the former version, and afterwards it may not.
const LevelPauseDefault = time.Hour

// levelsNamed is how many nodes are named because of which the level does not rise.
const levelsNamed = 3

// Rise returns the feature level that the group is to rise to now, 0 for none, and what it waits
// for, in words: "" if this node knows no higher one. Levels rise one by one. It goes by what the
// last Plan saw.
func (l *Leader) Rise(s State, now lease.Instant) (level uint64, waits string) {
	next := s.Info.Level + 1
	if next > l.cfg.Level || !s.Info.Serving {
		l.agreed = 0
		return 0, ""
	}
	lacks := lacking(next, l.members, s.Known, s.Self, l.cfg.Patience)
	switch {
	case l.cfg.HoldLevel != 0 && next > l.cfg.HoldLevel:
		waits = "Config.HoldLevel of the raft leader holds it"
	case len(lacks) > 0:
		waits = strings.Join(lacks[:min(len(lacks), levelsNamed)], "; ")
		if more := len(lacks) - levelsNamed; more > 0 {
			waits += fmt.Sprintf("; and %d more", more)
		}
	default:
		if l.agreed == 0 {
			l.agreed = now
		}
		left := l.cfg.LevelPause - time.Duration(now-l.agreed)
		if left <= 0 {
			return next, ""
		}
		return 0, fmt.Sprintf("level %d: all know it; it rises in %v", next, (left + time.Minute - 1).Truncate(time.Minute))
	}
	l.agreed = 0
	return 0, fmt.Sprintf("level %d: %s", next, waits)
}

// Agreed reports whether all know the next level, as of the last Rise, and its pause alone is left.
func (l *Leader) Agreed() bool { return l.agreed != 0 }

// lacking names, in order, the nodes because of which the group may not rise to a level, and why.
// Absence blocks: a member that is away comes back, and a version that does not know the level would
// never be let in again. RemoveNode is the way around one that does not come back.
func lacking(level uint64, members []Member, known []fsm.NodeRecord, self string, patience time.Duration) (lacks []string) {
	said := make(map[string]fsm.NodeRecord) // by its last process
	for _, n := range known {
		node := n.Node.String()
		if n.Incarnation > said[node].Incarnation {
			said[node] = n
		}
		if n.Lacks(level) {
			lacks = append(lacks, knows(n))
		}
	}
	for _, m := range members {
		switch n := said[m.Node]; {
		case n.Incarnation == 0:
			lacks = append(lacks, fmt.Sprintf("node %s has not said Hello", m.Node))
		case n.Level < level && !n.Lacks(level): // a process that was away for long, and has a replica again
			lacks = append(lacks, knows(n))
		case m.Node != self && m.Heard > patience:
			lacks = append(lacks, fmt.Sprintf("node %s is away", m.Node))
		}
	}
	slices.Sort(lacks)
	return lacks
}

func knows(n fsm.NodeRecord) string {
	return fmt.Sprintf("node %s (%s) knows %d", n.Node, n.Name, n.Level)
}
