package holdfast_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// Long TTLs: whatever the group thinks of a node, and does to it, its leases are valid for much longer. Nobody waits for
// the end of the longest: an operator frees what the dead hold.
const (
	longWait = 2 * time.Minute // the longest TTL whose end is waited for when all is over
)

// longs are the locks with long TTLs.
func (x *nemesis) longs() []kind {
	return []kind{
		{name: "minute", limit: 1, ttl: time.Minute}, {name: "long", limit: 1, ttl: x.long},
		{name: "long shared", limit: 100, shared: true, ttl: x.long},
	}
}

func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Millisecond + time.Duration(r.Int64N(int64(d)))
}

// keeper holds locks with long TTLs on node i, again and again.
func (x *nemesis) keeper(i int, r *rand.Rand) {
	n := x.s.Node(i)
	for !x.resting() {
		pause(r, x.pace.keep)
		<-n.Awake()
		if c := n.Cluster(); c != nil {
			x.call(n, c, x.longs()[r.IntN(len(x.longs()))], r)
		}
	}
}

// operator now and then takes a node for dead, whether it is or not.
func (x *nemesis) operator(r *rand.Rand) {
	for !x.resting() {
		pause(r, x.pace.operate)
		n := x.s.Nodes()[r.IntN(len(x.s.Nodes()))]
		<-n.Awake()
		c := n.Cluster()
		if c == nil || x.resting() {
			continue
		}
		x.mu.Lock()
		id := x.ids[r.IntN(len(x.ids))]
		x.mu.Unlock()
		if id != "" {
			x.revoke(n, c, id)
		}
	}
}

// revoke frees all that a node holds.
func (x *nemesis) revoke(n *sim.Node, c *holdfast.Cluster, id string) {
	e := history.Event{Kind: history.Revoke, Op: x.rec.Op(), Node: n.Index(), Value: id}
	x.rec.Add(e)
	err := c.RevokeNode(until(time.Second), id, "the random test")
	if err != nil {
		x.understand("revoking", err)
	}
	e.Kind, e.OK = history.Revoked, err == nil
	x.rec.Add(e)
}

// clear frees by force what the dead hold of a lock.
func (x *nemesis) clear(n *sim.Node, name string) {
	for end := time.Now().Add(x.late); time.Now().Before(end); {
		info, err := n.Cluster().Inspect(until(time.Second), name)
		if err == nil && len(info.Holders) == 0 {
			return
		}
		for _, h := range info.Holders {
			e := history.Event{Kind: history.Force, Op: x.rec.Op(), Node: n.Index(), Lock: name, Token: uint64(h.Token)}
			x.rec.Add(e)
			err = errors.Join(err, n.Cluster().ForceRelease(until(time.Second), name, h.Token, "its node is gone"))
		}
		if err != nil {
			x.understand("clearing", err, holdfast.ErrStaleToken, holdfast.ErrUnknownOutcome)
		}
	}
}

// keepers are the nodes that hold a lock with a long TTL now.
func (x *nemesis) keepers() (nodes []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for t := range x.tenures {
		if t.kind.ttl > 0 && t.l.Valid() {
			nodes = append(nodes, t.n.Index())
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
