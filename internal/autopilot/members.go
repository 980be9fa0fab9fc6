package autopilot

import "maps"

// Members is the group's membership: nodes by replica.
type Members struct {
	Voters   map[uint64]string
	Standbys map[uint64]string
	Change   uint64 // index of the last change, which the next one must name; 0: nothing applied yet
}

// Replica returns the replica of a node. It never has two: the engine refuses a member at a node
// that has one.
func (m Members) Replica(node string) (replica uint64, ok bool) {
	for _, members := range []map[uint64]string{m.Voters, m.Standbys} {
		for replica, other := range members {
			if other == node {
				return replica, true
			}
		}
	}
	return 0, false
}

// Votes reports whether a node's replica votes.
func (m Members) Votes(node string) bool {
	replica, ok := m.Replica(node)
	return ok && m.Voters[replica] != ""
}

// Has reports whether a node has a replica.
func (m Members) Has(node string) bool {
	_, ok := m.Replica(node)
	return ok
}

// Includes reports whether a replica is a member.
func (m Members) Includes(replica uint64) bool {
	return m.Voters[replica] != "" || m.Standbys[replica] != ""
}

// All is every node with a replica, by replica.
func (m Members) All() map[uint64]string {
	all := make(map[uint64]string, len(m.Voters)+len(m.Standbys))
	maps.Copy(all, m.Voters)
	maps.Copy(all, m.Standbys)
	return all
}
