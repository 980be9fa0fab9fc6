package forming

import (
	"cmp"
	"slices"
)

// view is what gossip shows, in order.
type view struct {
	fresh  []string // ids, lowest first
	groups []group  // the one to join first
}

type group struct {
	id      string
	members int
}

// look sorts the peers. Of several groups the one with most members in sight comes first, then the one
// with the lowest id: a group that was left behind before it could serve has few.
func (f *Forming) look(in Input) view {
	var v view
	members := make(map[string]int)
	for _, p := range in.Peers {
		switch {
		case p.Cluster != "":
			members[p.Cluster]++
		case p.Fresh:
			v.fresh = append(v.fresh, p.ID)
		}
	}
	for id, n := range members {
		v.groups = append(v.groups, group{id, n})
	}
	slices.Sort(v.fresh)
	slices.SortFunc(v.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.members, a.members), cmp.Compare(a.id, b.id))
	})
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

// clusters lists the cluster ids in sight, lowest first.
func (v view) clusters() []string {
	ids := make([]string, 0, len(v.groups))
	for _, g := range v.groups {
		ids = append(ids, g.id)
	}
	slices.Sort(ids)
	return ids
}
