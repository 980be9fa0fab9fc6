package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	// nearerEvery is the time between two moves to a nearer replica, and between two looks for one. A replica that
	// is near and refuses this node would have it come and go otherwise.
	nearerEvery = time.Minute
	// leftTime is for how long a replica that sent this node away, or ended, comes after all others, and is none to
	// move to. Gossip may take it for alive, and it may take clients in without a raft leader: two near ones would
	// have this node go back and forth between them, and those that serve would never be tried.
	leftTime = time.Minute
	leftMax  = 64 // addresses, as many as a replica names
)

var (
	// errNearer: another replica is nearer than the one of this connection.
	errNearer = errors.New("holdfast: a replica in the zone of this client serves it")
	// errUnled: the replica of this connection is no better than the one that this node has moved from.
	errUnled = errors.New("holdfast: the nearer replica hears no raft leader")
)

// leaving is the end of a replica, or of the way to it.
type leaving struct {
	addr string
	at   time.Time
}

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

// sort sorts addresses: those that this node left lately come after all others, the longest ago first, and else
// the nearest is first. Those that are equal stay in their order.
func (r *Roamer) sort(addrs []string, now time.Time) {
	var near map[string]int
	r.mu.Lock()
	left := r.lately(now)
	if r.cfg.Zone != "" {
		near = distances(r.cfg.Zone, r.fleet)
	}
	r.mu.Unlock()
	slices.SortStableFunc(addrs, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(left, a), slices.Index(left, b)), cmp.Compare(near[b], near[a]))
	})
}

// lately are the addresses that this node has left within leftTime, the longest ago first. The caller holds r.mu.
func (r *Roamer) lately(now time.Time) (addrs []string) {
	for _, l := range r.left {
		if now.Sub(l.at) < leftTime {
			addrs = append(addrs, l.addr)
		}
	}
	return addrs
}

// leave notes why this node has left a replica. One that was left for a nearer one has not ended.
func (r *Roamer) leave(addr string, why error, now time.Time) {
	if errors.Is(why, errNearer) {
		r.tries = true
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = slices.DeleteFunc(r.left, func(l leaving) bool { return l.addr == addr })
	r.left = append(r.left, leaving{addr, now})
	r.left = r.left[max(len(r.left)-leftMax, 0):]
}

// onTrial reports whether this node leaves the replica at an address at once where that hears no raft leader: it
// came from one that served it. Each has one trial in leftTime, as perhaps no replica hears a raft leader by now.
func (r *Roamer) onTrial(addr string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries && !slices.Contains(r.lately(now), addr)
}

// seek looks for a nearer replica while a connection lasts: one may come, or serve again.
func (r *Roamer) seek(ctx context.Context, c *conn) {
	for {
		r.look(ctx, c)
		select {
		case <-time.After(nearerEvery):
		case <-c.gone:
			return
		case <-ctx.Done():
			return
		}
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
	for _, left := range r.lately(now) {
		if left != addr {
			delete(near, left)
		}
	}
	own, known := near[addr]
	if !known || now.Sub(r.moved) < nearerEvery || slices.Max(slices.Collect(maps.Values(near))) <= own {
		return false
	}
	r.moved = now
	return true
}
