package client

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// nearerEvery is the time between two moves to a nearer replica. A replica that is near and refuses
// this node would have it come and go otherwise.
const nearerEvery = time.Minute

// leftTime is for how long a replica that has just ended is none to move to: that of gossip, about.
const leftTime = 10 * time.Second

// errNearer: another replica is nearer than the one of this connection.
var errNearer = errors.New("holdfast: a replica in the zone of this client serves it")

// nearness says how near a node is to this one: 2 on its host, 1 in its zone, 0 elsewhere.
func nearness(own, other string) int {
	zone, host, _ := strings.Cut(own, "/")
	otherZone, otherHost, _ := strings.Cut(other, "/")
	switch {
	case zone == "" && host == "" || zone != otherZone:
		return 0
	case host != "" && host == otherHost:
		return 2
	case zone != "":
		return 1
	}
	return 0
}

// distances are how near the replicas of a fleet are, by address. Those that gossip does not see are
// missing.
func distances(own string, fleet seam.Fleet) map[string]int {
	near := make(map[string]int)
	for _, m := range fleet.Members {
		replica := func(r seam.Replica) bool { return r.Node == m.Node && r.Ill == "" }
		if m.State == member.Alive && (slices.ContainsFunc(fleet.Voters, replica) || slices.ContainsFunc(fleet.Standbys, replica)) {
			near[m.Addr] = nearness(own, m.Zone)
		}
	}
	return near
}

// nearest sorts addresses, the nearest first; those that are equally near stay in their order.
func (r *Roamer) nearest(addrs []string) {
	if r.cfg.Zone == "" {
		return
	}
	r.mu.Lock()
	near := distances(r.cfg.Zone, r.fleet)
	r.mu.Unlock()
	slices.SortStableFunc(addrs, func(a, b string) int { return cmp.Compare(near[b], near[a]) })
}

// leave notes the end of a replica, or of the way to it. One that was left for a nearer one has not ended: no
// move follows that for longer than leftTime.
func (r *Roamer) leave(addr string, why error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = addr
	if !errors.Is(why, errNearer) {
		r.ended = now
	}
}

// moves reports whether this node leaves the replica at an address for one that is nearer. An address
// that gossip does not know may be a forwarded port, and the only way there is: it stays. It stays while a
// list or a backup is under way, which would be cut short.
func (r *Roamer) moves(addr string, now time.Time) bool {
	if len(r.group.streams) > 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	near := distances(r.cfg.Zone, r.fleet)
	if r.left != addr && now.Sub(r.ended) < leftTime {
		delete(near, r.left)
	}
	own, known := near[addr]
	if !known || now.Sub(r.moved) < nearerEvery || slices.Max(slices.Collect(maps.Values(near))) <= own {
		return false
	}
	r.moved = now
	return true
}
