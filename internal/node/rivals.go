package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	settleTime = 10 * time.Second     // between two polls of a node that has its group
	askTime    = time.Second          // between two questions to a group that the own one would yield to
	lookEach   = 5 * time.Millisecond // for each peer, the least time between two looks at all: while a large fleet starts, gossip has news all the time
	answersMax = 16                   // answers that wait, and answers that are being sent
	toldMax    = 16                   // other groups that have a line in the log
)

// rivals are the other groups of this name that the node sees. Two groups that other nodes than
// their founders have joined refuse each other, and the log says so. A group that no node but its
// founder ever joined yields.
type rivals struct {
	n       *Node
	answers chan forming.Message
	former  former
	sending chan struct{}   // an element for each answer that is being sent
	told    map[string]bool // other groups that had their line in the log; of the goroutine of runMembership

	mu      sync.Mutex
	foreign map[string][]string // nodes by group
}

func newRivals(n *Node) *rivals {
	return &rivals{
		n: n, answers: make(chan forming.Message, answersMax), sending: make(chan struct{}, answersMax),
		told: make(map[string]bool), foreign: make(map[string][]string),
	}
}

// claimOf is the node's claim about its group.
func claimOf(id datadir.Identity) forming.Claim {
	return forming.Claim{Cluster: id.ClusterID, Alone: id.Alone(), Birth: id.Birth}
}

// peers are the other nodes as gossip sees them. A member at this node's own address is a former
// process there.
func (r *rivals) peers() []forming.Peer {
	var peers []forming.Peer
	here := r.n.Addr()
	for _, m := range r.n.gossip.Members() {
		if m.Local || !m.Here() || m.Addr == here {
			continue
		}
		peer := forming.Peer{ID: m.Node, Fresh: m.Phase == autopilot.PhaseFresh}
		if m.Phase.Runs() {
			peer.Cluster, peer.Alone, peer.Birth = m.ClusterID, m.Alone, m.Birth
		}
		peers = append(peers, peer)
	}
	return peers
}

// asks are the questions to the groups in sight that the own one would yield to. While there are any
// the node is not ready, and adds no replica to its group.
func (r *rivals) asks() []forming.Message {
	id := r.n.dir.Identity()
	if !id.Alone() {
		return nil
	}
	groups := slices.DeleteFunc(forming.Groups(r.peers()), func(g forming.Group) bool { return !r.rival(g) })
	return forming.Asks(id.NodeID, claimOf(id), groups)
}

// hear handles a message of another group.
func (r *rivals) hear(m forming.Message) {
	id := r.n.dir.Identity()
	switch {
	case m.Kind == forming.Answer:
		select {
		case r.answers <- m:
		default:
		}
	case id.ClusterID != "" && !id.Dropped:
		select {
		case r.sending <- struct{}{}:
			r.n.Go(func(ctx context.Context) {
				defer func() { <-r.sending }()
				_ = r.n.founder.deliver(ctx, forming.Answered(m, claimOf(id)))
				if r.n.hearsMajority(ctx) {
					answer := forming.Answered(m, claimOf(id))
					answer.Lives = true
					_ = r.n.founder.deliver(ctx, answer)
				}
			})
		default: // the other group asks again
		}
	}
}

// watch runs serve, which begins a life in the group, and watches other groups from then on. It returns
// serve's error, seam.ErrYielded when the own group yields, errOut when it has removed this node's replica,
// or the error of ctx.
func (r *rivals) watch(ctx context.Context, serve func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	served := make(chan error, 1)
	if !r.n.Go(func(context.Context) { served <- serve(ctx) }) { // the node stops
		<-ctx.Done()
		return ctx.Err()
	}
	serving := (<-chan error)(served) // nil once serve has returned
	over := func(cause error) error {
		if end(cause); serving != nil {
			<-serving
		}
		return cause
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rest rest
	for {
		select {
		case err := <-serving:
			if err != nil {
				return err
			}
			serving = nil
			continue
		case <-ctx.Done():
			return ctx.Err()
		case other := <-r.answers:
			if r.yields(other) && !r.n.leaving() {
				return over(seam.ErrYielded)
			}
			continue
		case <-r.n.founder.removal:
			if r.n.founder.isOut() && !r.n.leaving() {
				return over(errOut)
			}
			continue
		case <-timer.C:
		case <-r.n.founder.wakeup:
			if soon := rest.left(time.Now()); soon > 0 {
				timer.Reset(soon)
				continue
			}
		}
		pause, peers := r.poll()
		rest.begin(time.Now(), time.Duration(peers)*lookEach)
		timer.Reset(pause)
	}
}

// rest is the time in which news do not make a node look at its fleet again. What it costs to look
// grows with the fleet, and so does the number of news.
type rest struct{ until time.Time }

func (r *rest) begin(now time.Time, d time.Duration) { r.until = now.Add(d) }

func (r *rest) left(now time.Time) time.Duration { return r.until.Sub(now) }

// poll looks at the fleet once, and returns the pause before the next poll, and how many peers there are.
func (r *rivals) poll() (pause time.Duration, peers int) {
	own, seen := claimOf(r.n.dir.Identity()), r.peers()
	r.show(forming.Groups(seen), own.Cluster)
	questions := r.asks()
	r.n.founder.send(questions)
	if len(questions) > 0 {
		return askTime, len(seen)
	}
	return settleTime, len(seen)
}

// clear waits until no group is in sight that the own one would yield to: a founder that restarts
// after other nodes have formed a group does not serve beside that group.
func (r *rivals) clear(ctx context.Context) error {
	if !r.n.dir.Identity().Alone() {
		return nil
	}
	told := time.NewTicker(waitTold)
	defer told.Stop()
	ask := time.NewTicker(askTime)
	defer ask.Stop()
	for tried := r.n.gossip.Tried(); tried != nil || len(r.asks()) > 0; {
		select {
		case <-tried:
			tried = nil
		case <-ask.C:
		case <-told.C:
			r.n.log.Warn("this node does not serve its group yet", "waits", r.n.Missing())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// show records which groups besides own, the node's group or the one that it asks to join, are in
// sight, and reports changes: to the Listener, and once for each group to the log.
func (r *rivals) show(groups []forming.Group, own string) {
	now := make(map[string][]string)
	for _, g := range groups {
		if g.Cluster == own {
			continue
		}
		now[g.Cluster] = g.Nodes
		if !g.Alone && (!r.n.dir.Identity().Alone() || r.former.is(g.Claim)) && !r.told[g.Cluster] && len(r.told) < toldMax {
			r.told[g.Cluster] = true
			r.n.log.Error("nodes of another group under the same cluster name are in sight: this node refuses them",
				"group", g.Cluster, "own", own, "cluster", r.n.cfg.Cluster)
		}
	}
	r.mu.Lock()
	before := r.foreign
	r.foreign = now
	r.mu.Unlock()
	for cluster := range before {
		if _, still := now[cluster]; !still {
			r.n.cfg.Listener.Foreign(cluster, nil)
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(now)) {
		if !slices.Equal(before[cluster], now[cluster]) {
			r.n.cfg.Listener.Foreign(cluster, slices.Clone(now[cluster]))
		}
	}
}

// list is the cluster ids of the other groups in sight.
func (r *rivals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.foreign))
}

// Missing says in words what this node waits for before it can serve, "" if it knows of nothing.
func (n *Node) Missing() string {
	var parts []string
	id := n.dir.Identity()
	rivals := n.founder.rivals
	groups := forming.Groups(rivals.peers())
	disk := n.founder.disk.words()
	switch group, _ := n.Proposer.Current(); {
	case disk != "":
		parts = append(parts, disk)
	case id.ClusterID == "" && len(groups) > 0:
		parts = append(parts, "the node waits for group "+groups[0].Cluster+" to add its replica")
	case id.ClusterID == "":
		parts = append(parts, n.founder.unmet())
	case n.asClient.hangs.Load():
		if why := n.asClient.roamer.Missing(); why != "" {
			parts = append(parts, why)
		} else if !n.founder.placed.Load() {
			parts = append(parts, "the node waits until the voters of its group are complete, and answer it")
		}
	case id.Asks:
		parts = append(parts, "the node waits for its group to add a replica, or to let it be a client")
	case id.Alone() && !n.founder.joinTried():
		parts = append(parts, "the node tries the addresses of Join before it serves its group, which no other node has joined")
	case len(groups) > 0 && len(rivals.asks()) > 0:
		parts = append(parts, "its own group is about to yield to "+groups[0].Cluster)
	case group != nil:
		var info fsm.Info
		group.Read(func(m *fsm.Machine) { info = m.Info() })
		switch {
		case info.Wait > 0:
			parts = append(parts, fmt.Sprintf("its group was recovered, and grants no lock until its raft leader runs for %v: the leases of "+
				"the former group end by then", info.Wait))
		case info.Born && !info.Serving:
			parts = append(parts, fmt.Sprintf("its group does not serve before it has %d nodes and %d voters", info.Bootstrap, info.Voters))
		case !n.accepted():
			parts = append(parts, "the node waits until its group has accepted this process")
		case !n.founder.placed.Load() && !n.complete(group):
			parts = append(parts, fmt.Sprintf("of the %d voters of its group %d are here, and it shall have %d", len(group.Members().Voters), len(n.votersHere(group)), n.cfg.Voters))
		}
	}
	parts = append(parts, n.reach.words()...)
	if others := rivals.list(); len(others) > 0 {
		parts = append(parts, "other groups of this name are in sight: "+strings.Join(others, ", "))
	}
	if err := n.gossip.JoinError(); err != nil {
		parts = append(parts, "no other node was found: "+strings.Join(strings.Fields(err.Error()), " "))
	}
	return strings.Join(parts, "; ")
}

// unmet says how many of the nodes that Bootstrap waits for have met, and which addresses of Join let this
// node not in.
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
	strange := f.n.gossip.Strangers()
	switch {
	case len(strange) > 0:
	case want > 1:
		return fmt.Sprintf("%d of the %d nodes that Bootstrap waits for have met", met, want)
	case met > 1:
		return "the node leaves it to another one without a group, whose id is lower, to found one"
	default:
		return "the node tries the addresses of Join before it founds a group"
	}
	addrs := slices.Sorted(maps.Keys(strange))
	words := fmt.Sprintf("what answers at %s is of another fleet, has other secrets, hangs, or is no node (%s)", strings.Join(addrs, ", "),
		strings.Join(strings.Fields(strange[addrs[0]].Error()), " "))
	if want == 1 {
		return "the node founds no group before it is let in everywhere: " + words
	}
	return fmt.Sprintf("%d of the %d nodes that Bootstrap waits for have met: %s", met, want, words)
}
