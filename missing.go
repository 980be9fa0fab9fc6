package holdfast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/forming"
)

// waitTold is how often a node that belongs to no group says what it waits for.
const waitTold = 10 * time.Second

// explain adds to an error of not having reached the group what this node still waits for.
func (c *Cluster) explain(err error) error {
	if !errors.Is(err, ErrNoQuorum) {
		return err
	}
	if missing := c.founder.missing(); missing != "" {
		return fmt.Errorf("%w: %s", err, missing)
	}
	return err
}

// missing says to people what stands between this node and its service, as far as it knows; "" if
// nothing that it knows of.
func (f *founder) missing() string {
	var parts []string
	id := f.c.dir.Identity()
	groups := forming.Groups(f.rivals.peers())
	switch group, _ := f.c.proposer.Current(); {
	case id.ClusterID == "" && len(groups) > 0:
		parts = append(parts, "waits for group "+groups[0].Cluster+" to take it in")
	case id.ClusterID == "":
		parts = append(parts, f.unmet())
	case id.Asks:
		parts = append(parts, "waits for its group to take it back as a new replica: the former one was removed")
	case len(f.rivals.asks()) > 0:
		parts = append(parts, "its own group is about to yield to "+groups[0].Cluster)
	case group != nil:
		var info fsm.Info
		group.Read(func(m *fsm.Machine) { info = m.Info() })
		if info.Born && !info.Serving {
			parts = append(parts, fmt.Sprintf("its group does not serve before it has %d nodes and %d voters", info.Bootstrap, info.Voters))
		}
	}
	if others := f.rivals.list(); len(others) > 0 {
		parts = append(parts, "other groups of this name are in sight: "+strings.Join(others, ", "))
	}
	if err := f.c.gossip.JoinError(); err != nil {
		parts = append(parts, "no other node was found: "+strings.Join(strings.Fields(err.Error()), " "))
	}
	return strings.Join(parts, "; ")
}

// unmet says how many nodes have met of those that are to found the group.
func (f *founder) unmet() string {
	want := f.bootstrap()
	if want < 1 {
		return "no group to join is in sight"
	}
	met := 1
	for _, p := range f.rivals.peers() {
		if p.Fresh {
			met++
		}
	}
	return fmt.Sprintf("%d of the %d nodes that Bootstrap waits for have met", met, want)
}
