package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	reachGrace = 3 * time.Second // in which a newcomer has found its group where all is well
	reachPause = 2 * time.Second // between two rounds of probes, at least
	reachRest  = 4               // times as long as a round took: hundreds of newcomers probe each other
	reachMax   = unreachedMax    // probes in a round
)

// reach probes newcomers at the addresses that they advertise when they have not found a group for
// reachGrace. A node that has no group itself probes all others: their answers say whom they do not
// reach. What it finds is for people: nothing is refused for it.
type reach struct {
	loop.Loop
	n     *Node
	since map[string]time.Time // since when a newcomer has been seen; of the goroutine of Run
	told  map[string]string    // the address with which the log has named it; of that goroutine

	mu     sync.Mutex
	failed map[string]lost // by node
	deaf   []string        // the nodes that do not reach this one, as they say
}

// lost is a node that is not where it says it is.
type lost struct {
	member membership.Member
	err    error
}

func newReach(n *Node) *reach {
	r := &reach{n: n, since: make(map[string]time.Time), told: make(map[string]string), failed: make(map[string]lost)}
	r.Loop = loop.New(func(ctx context.Context) time.Duration {
		if !n.fleeting {
			n.known.poll()
		}
		began := time.Now()
		r.poll(ctx)
		return max(reachPause, reachRest*time.Since(began))
	})
	return r
}

// unreached are the nodes that this one does not reach.
func (r *reach) unreached() (list []fsm.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node := range r.failed {
		if id, err := fsm.ParseNode(node); err == nil && len(list) < unreachedMax {
			list = append(list, id)
		}
	}
	return list
}

// words says who is not where it says it is.
func (r *reach) words() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.failed {
		list = append(list, fmt.Sprintf("%s says that it is at %s: %s", nameOf(l.member), l.member.Addr, because(l.err)))
	}
	slices.Sort(list)
	if len(r.deaf) > 0 {
		list = append(list, fmt.Sprintf("the others cannot reach this node at %s, say %s", r.n.Addr(), strings.Join(r.deaf, ", ")))
	}
	return list
}

func nameOf(m membership.Member) string {
	if m.Name == "" {
		return m.Node
	}
	return m.Name
}

// because is an error of the network on one line, without what it repeats.
func because(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "i/o timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed: secrets, certificates or versions may differ"
	}
	return oneLine(err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// poll probes a few newcomers, and notes what came of it.
func (r *reach) poll(ctx context.Context) {
	targets := r.targets(time.Now())
	targets = targets[:min(len(targets), reachMax)]
	type answer struct {
		unreached []fsm.Node
		err       error
	}
	answers := together(targets, func(m membership.Member) (a answer) {
		a.unreached, a.err = r.n.ask(ctx, m.Addr, m.Node, m.Incarnation)
		return a
	})
	if ctx.Err() != nil {
		return
	}
	failed, deaf := make(map[string]lost), []string(nil)
	for i, m := range targets {
		if err := answers[i].err; err != nil {
			failed[m.Node] = lost{m, err}
		} else if slices.Contains(answers[i].unreached, r.n.self.Node) {
			deaf = append(deaf, nameOf(m))
		}
	}
	slices.Sort(deaf)
	r.mu.Lock()
	r.failed, r.deaf = failed, deaf
	r.mu.Unlock()
	r.tell(failed)
}

// targets are the nodes to probe, in any order: the newcomers that have been seen for a while, and
// all in sight if this node is one. A client asks for a replica for as long as it lives, and is none.
// A client that is served probes nobody: that a few nodes probe a newcomer is enough.
func (r *reach) targets(now time.Time) (list []membership.Member) {
	if r.n.asClient.serves() {
		clear(r.since)
		clear(r.told)
		return nil
	}
	id := r.n.dir.Identity()
	newcomer := id.ClusterID == "" || id.Asks
	seen := make(map[string]bool)
	for _, m := range r.n.gossip.Members() {
		if m.Local || !m.Here() || !newcomer && (m.Client || m.Phase != autopilot.PhaseFresh && m.Phase != autopilot.PhaseJoining) {
			continue
		}
		seen[m.Node] = true
		if _, ok := r.since[m.Node]; !ok {
			r.since[m.Node] = now
		}
		if now.Sub(r.since[m.Node]) >= reachGrace {
			list = append(list, m)
		}
	}
	for node := range r.since {
		if !seen[node] {
			delete(r.since, node)
			delete(r.told, node)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// tell logs once for each node and address, on the raft leader that the node waits for. A node
// without a group says it with all that it waits for.
func (r *reach) tell(failed map[string]lost) {
	if group, _ := r.n.Proposer.Current(); group == nil || !group.IsRaftLeader() {
		return
	}
	for node, l := range failed {
		if r.told[node] != l.member.Addr {
			r.told[node] = l.member.Addr
			r.n.log.Warn("a node that asks to join is not reached at the address that it advertises", "joins", r.n.described(node), "error", because(l.err))
		}
	}
}
