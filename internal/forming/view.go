package forming

import "slices"

// view is what gossip shows, in order.
type view struct {
	fresh  []string // ids, lowest first
	groups []Group  // the one to join first
}

// look sorts the peers.
func (f *Forming) look(in Input) view {
	v := view{groups: Groups(in.Peers)}
	for _, p := range in.Peers {
		if p.Cluster == "" && p.Fresh {
			v.fresh = append(v.fresh, p.ID)
		}
	}
	slices.Sort(v.fresh)
	return v
}

// hasAll reports whether all of these nodes are fresh and in sight.
func (v view) hasAll(ids []string) bool {
	for _, id := range ids {
		if _, ok := slices.BinarySearch(v.fresh, id); !ok {
			return false
		}
	}
	return true
}

// conflict lists the cluster ids in sight that refuse each other, lowest first: those of groups
// that others have joined, if there is more than one.
func (v view) conflict() []string {
	var ids []string
	for _, g := range v.groups {
		if !g.Alone {
			ids = append(ids, g.Cluster)
		}
	}
	if len(ids) < 2 {
		return nil
	}
	slices.Sort(ids)
	return ids
}
