// Package member has what a node knows of the members of a fleet without gossip: where the entries of
// Config.Join lead, and in which states gossip sees a member. A client links no gossip.
package member

// ZoneMax bounds Config.Zone, in bytes.
const ZoneMax = 128

// State is gossip's opinion of a member: a Failed one may be alive behind a cut network.
type State uint8

// The states of a member.
const (
	Alive   State = iota + 1 // answers
	Suspect                  // this node's last probe had no answer; not given up yet
	Failed                   // given up by the others, without a farewell
	Left                     // announced that it leaves
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	case Failed:
		return "failed"
	case Left:
		return "left"
	}
	return "unknown"
}
