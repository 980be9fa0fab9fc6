package forming_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// raftLeader returns a machine of the group that a majority of its voters is in touch with.
func (w *world) raftLeader(g *raftGroup) *machine {
	for _, id := range g.voters {
		leader := w.find(id)
		if leader == nil {
			continue
		}
		n := 0
		for _, other := range g.voters {
			if m := w.find(other); m != nil && w.inTouch(leader.slot, m.slot) {
				n++
			}
		}
		if 2*n > len(g.voters) {
			return leader
		}
	}
	return nil
}

// manage is the group's autopilot: one change at a time, and Serve when there are enough voters.
func (w *world) manage(cluster string, g *raftGroup) error {
	leader := w.raftLeader(g)
	if leader == nil {
		return nil
	}
	g.serving = g.serving || len(g.voters) >= w.bootstrap
	for _, m := range w.machines {
		if !m.on || !w.inTouch(leader.slot, m.slot) || slices.Contains(g.voters, m.disk.id) {
			continue
		}
		added := slices.Contains(g.nonVoters, m.disk.id)
		switch {
		case !added && m.joining == cluster && w.share(leader):
			g.nonVoters = append(g.nonVoters, m.disk.id)
			return nil
		case added && m.joining == cluster: // it learns that it was added, and starts a replica
			return w.adopt(m, cluster)
		case added && m.disk.cluster == cluster:
			g.voters = append(g.voters, m.disk.id)
			return nil
		}
	}
	return nil
}

func (w *world) run(until time.Duration) error {
	for ; w.now < until; w.now += tick {
		w.disturb()
		w.deliver()
		for _, m := range w.machines {
			if !m.on && m.up <= w.now {
				w.start(m)
			}
			if !m.on {
				continue
			}
			if (w.now+time.Duration(m.slot)*tick)%beaconGap == 0 {
				w.gossip(m)
			}
			if m.disk.cluster == "" {
				if err := w.decide(m); err != nil {
					return err
				}
			} else {
				w.ask(m)
			}
		}
		serving := 0
		for _, id := range slices.Sorted(maps.Keys(w.groups)) {
			if err := w.manage(id, w.groups[id]); err != nil {
				return err
			}
			if w.groups[id].serving {
				serving++
			}
		}
		w.rivals = w.rivals || serving > 1
		if w.rivals && w.identities < 2*w.bootstrap {
			return fmt.Errorf("%d groups serve, of %d identities with Bootstrap %d", serving, w.identities, w.bootstrap)
		}
	}
	return nil
}

// live returns the groups that still have a majority of their voters' disks.
func (w *world) live() (ids []string) {
	for id, g := range w.groups {
		n := 0
		for _, voter := range g.voters {
			if w.find(voter) != nil {
				n++
			}
		}
		if 2*n > len(g.voters) {
			ids = append(ids, id)
		}
	}
	return ids
}

// settled reports whether every machine is in the one live group and it serves.
func (w *world) settled() error {
	for _, m := range w.machines {
		g := w.groups[m.disk.cluster]
		if g == nil {
			return fmt.Errorf("%s is in no group", m.disk.id)
		}
		if !g.serving || !slices.Contains(g.voters, m.disk.id) {
			return fmt.Errorf("%s is in %s of %v, serving %v", m.disk.id, m.disk.cluster, g.voters, g.serving)
		}
	}
	return nil
}

// apart reports whether machines are bound to different groups that others than their founders have
// joined, or to one that is dead: only an operator can free them.
func (w *world) apart() bool {
	live := w.live()
	joined := map[string]bool{}
	for _, m := range w.machines {
		switch c := m.disk.claim(); {
		case c.Cluster == "":
		case !slices.Contains(live, c.Cluster):
			return true
		case !c.Alone:
			joined[c.Cluster] = true
		}
	}
	return len(joined) > 1
}

// Safety in every history: no node in two groups, nor in one that was given up; never two groups
// that serve while fewer than 2*Bootstrap identities were made. Liveness unless nodes were bound to
// different groups, which others than their founders had joined, while there were faults: then
// every node votes in the one group within a minute after the last fault, whatever groups of one
// there were.
func TestRandomFleetsFormOneGroup(t *testing.T) {
	t.Parallel()
	const seeds, faults, bound = 2000, 60 * time.Second, time.Minute
	small, stranded, settled, rivals, yielded := 0, 0, 0, 0, 0
	for seed := range uint64(seeds) {
		w := newWorld(seed)
		check := func(err error) {
			if err != nil {
				t.Fatalf("seed %d, %d nodes, Bootstrap %d, at %v: %v", seed, len(w.machines), w.bootstrap, w.now, err)
			}
		}
		check(w.run(faults))
		w.heal()
		check(w.run(faults + time.Second)) // all are up
		apart := w.apart()
		yielded += len(w.dropped)
		if w.rivals {
			rivals++
		}
		if w.identities < 2*w.bootstrap {
			small++
			if apart {
				stranded++
			}
		}
		if !apart {
			check(w.run(faults + bound))
			check(w.settled())
			settled++
		}
	}
	t.Logf("%d of %d fleets settled; of %d with fewer than 2*Bootstrap identities %d have nodes apart; of the others %d have two groups that serve; %d groups were given up",
		settled, seeds, small, stranded, rivals, yielded)
	if 100*stranded > small {
		t.Errorf("%d of %d fleets were split while they formed: votes are worth nothing", stranded, small)
	}
	if rivals == 0 {
		t.Error("no partition ever made two groups: the simulation says nothing")
	}
	if yielded == 0 {
		t.Error("no group was ever given up: the simulation says nothing of it")
	}
}
