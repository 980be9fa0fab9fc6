package holdfast

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	settleTime = 10 * time.Second // between looks at the fleet of a node that has its group
	askTime    = time.Second      // between questions to a group that the own one would yield to
	answersMax = 16               // that wait, and that are being sent
	toldMax    = 16               // other groups that are complained about
)

// rivals are the other groups of this name that the node sees. Groups that others than their
// founders have joined refuse each other: people are told. One that nobody but this node ever
// joined yields.
type rivals struct {
	c       *Cluster
	answers chan forming.Claim
	sending chan struct{}   // answers that are on their way
	told    map[string]bool // other groups that were complained about; of the goroutine of live

	mu      sync.Mutex
	foreign map[string][]string // nodes by group
}

func newRivals(c *Cluster) *rivals {
	return &rivals{
		c: c, answers: make(chan forming.Claim, answersMax), sending: make(chan struct{}, answersMax),
		told: make(map[string]bool), foreign: make(map[string][]string),
	}
}

// claimOf is what the node says of its group.
func claimOf(id datadir.Identity) forming.Claim {
	return forming.Claim{Cluster: id.ClusterID, Alone: id.Alone(), Birth: id.Birth}
}

// peers are the other nodes as gossip sees them. What it still shows at this node's own address was
// here before it.
func (r *rivals) peers() []forming.Peer {
	var peers []forming.Peer
	here := r.c.Addr()
	for _, m := range r.c.gossip.Members() {
		if m.Local || !m.Here() || m.Addr == here {
			continue
		}
		peer := forming.Peer{ID: m.Node, Fresh: m.Phase == membership.PhaseFresh}
		if m.Phase == membership.PhaseStarting || m.Phase == membership.PhaseRunning {
			peer.Cluster, peer.Alone, peer.Birth = m.ClusterID, m.Alone, m.Birth
		}
		peers = append(peers, peer)
	}
	return peers
}

// asks are the questions to the groups in sight that the own one would yield to. As long as there
// are any the node is not ready, and takes nobody into its group.
func (r *rivals) asks() []forming.Message {
	id := r.c.dir.Identity()
	if !id.Alone() {
		return nil
	}
	return forming.Asks(id.NodeID, claimOf(id), forming.Groups(r.peers()))
}

// hear takes a message of another group's.
func (r *rivals) hear(m forming.Message) {
	id := r.c.dir.Identity()
	switch {
	case m.Kind == forming.Answer:
		select {
		case r.answers <- m.Claim():
		default:
		}
	case id.ClusterID != "" && !id.Dropped:
		select {
		case r.sending <- struct{}{}:
			r.c.goRun(func(ctx context.Context) {
				defer func() { <-r.sending }()
				r.c.founder.deliver(ctx, forming.Answered(m, claimOf(id)))
			})
		default: // it asks again
		}
	}
}

// watch runs serve, and looks after other groups meanwhile. It returns serve's error, ErrYielded
// when the own group is to be given up, or errOut when it has removed this node's replica.
func (r *rivals) watch(ctx context.Context, serve func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	served := make(chan error, 1)
	r.c.goRun(func(context.Context) { served <- serve(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case other := <-r.answers:
			if claimOf(r.c.dir.Identity()).YieldsTo(other) && !r.c.leaving() {
				end(ErrYielded)
				<-served
				return ErrYielded
			}
			continue
		case <-r.c.founder.removal:
			if r.c.founder.isOut() && !r.c.leaving() {
				end(errOut)
				<-served
				return errOut
			}
			continue
		case <-timer.C:
		case <-r.c.founder.wakeup:
		}
		timer.Reset(r.look())
	}
}

// look looks once, and returns when to look again.
func (r *rivals) look() time.Duration {
	own := claimOf(r.c.dir.Identity())
	r.show(forming.Groups(r.peers()), own.Cluster)
	questions := r.asks()
	r.c.founder.send(questions)
	if len(questions) > 0 {
		return askTime
	}
	return settleTime
}

// clear waits until no group is in sight that the own one would yield to: a founder that comes back
// where others have formed a group meanwhile does not serve beside it.
func (r *rivals) clear(ctx context.Context) error {
	if !r.c.dir.Identity().Alone() {
		return nil
	}
	select {
	case <-r.c.gossip.Tried():
	case <-ctx.Done():
		return ctx.Err()
	}
	for len(r.asks()) > 0 {
		select {
		case <-time.After(askTime):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// show notes which groups but the own one, or the one that the node would join, are in sight, and
// tells of changes.
func (r *rivals) show(groups []forming.Group, own string) {
	now := make(map[string][]string)
	var refused []string
	for _, g := range groups {
		if g.Cluster == own {
			continue
		}
		now[g.Cluster] = g.Nodes
		if !g.Alone && !r.c.dir.Identity().Alone() {
			refused = append(refused, g.Cluster)
		}
	}
	r.mu.Lock()
	before := r.foreign
	r.foreign = now
	r.mu.Unlock()
	for cluster := range before {
		if _, still := now[cluster]; !still {
			r.c.hooks.foreign(cluster, nil)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(now)) {
		if !slices.Equal(before[cluster], now[cluster]) {
			r.c.hooks.foreign(cluster, slices.Clone(now[cluster]))
		}
	}
	r.complain(refused, own)
}

// list is the cluster ids of the other groups in sight.
func (r *rivals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.foreign))
}

// complain says once of each group that it should not be there.
func (r *rivals) complain(groups []string, own string) {
	for _, id := range groups {
		if !r.told[id] && len(r.told) < toldMax {
			r.told[id] = true
			r.c.log.Error("nodes of another group under the same cluster name are in sight: they are refused",
				"group", id, "own", own, "cluster", r.c.cfg.Cluster)
		}
	}
}
