package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	knownPause = 5 * time.Second // between two comparisons of what is known with what is saved
	knownEvery = time.Minute     // between two writes
	knownTime  = time.Second     // for a write that the loop, and so Close, waits for
	failedKept = 2 * time.Minute // for a client, after gossip has lost a replica: gossip loses those behind a cut one by one
)

// known remembers on disk where the other nodes of the fleet were last. A fleet that is restarted
// as a whole finds itself by that if Config.Join leads nowhere, and its log has names for nodes that
// gossip has not seen yet.
type known struct {
	n       *Node
	mu      sync.Mutex
	peers   []datadir.Peer // as read at the start, and noted since
	saved   []datadir.Peer // of the goroutine of poll
	looked  time.Time
	wrote   time.Time
	writing atomic.Bool
}

// load reads what an earlier process has saved.
func (k *known) load() {
	k.saved = k.n.dir.Peers()
	k.peers = k.saved
}

// list is what is known now, the peers of the group first.
func (k *known) list() []datadir.Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.peers
}

// addresses are those of the list.
func (k *known) addresses() (addrs []string) {
	for _, p := range k.list() {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// find returns what is known of a node.
func (k *known) find(node string) (datadir.Peer, bool) {
	list := k.list()
	i := slices.IndexFunc(list, func(p datadir.Peer) bool { return p.Node == node })
	if i < 0 {
		return datadir.Peer{}, false
	}
	return list[i], true
}

// poll notes where the nodes are, at most once in knownPause, and saves that if it has changed.
func (k *known) poll() {
	if !k.looked.IsZero() && time.Since(k.looked) < knownPause {
		return
	}
	k.looked = time.Now()
	peers := k.look()
	k.mu.Lock()
	k.peers = peers
	k.mu.Unlock()
	if now := time.Now(); !slices.Equal(peers, k.saved) && (k.wrote.IsZero() || now.Sub(k.wrote) >= knownEvery) {
		k.wrote = now
		k.save(peers)
	}
}

// look is where the nodes of the group and those in sight were last. A node of the group that gossip
// has not seen keeps its former place, and until the group has accepted this process all do: the
// replica may still carry out the log, and know a former membership. A client knows by gossip alone
// which nodes have a replica. While it sees none, the former places lead back to its group, and all of
// them stay, but for those of members that have left.
func (k *known) look() []datadir.Peer {
	inGroup, accepted := make(map[string]bool), k.n.accepted()
	former, members := k.list(), k.n.gossip.Members()
	if group, _ := k.n.Proposer.Current(); group != nil {
		for _, node := range group.Members().All() {
			inGroup[node] = true
		}
		return lastPlaces(former, members, inGroup, !accepted)
	}
	own, here := k.n.ClusterID(), false
	for _, m := range members {
		if !m.Local && m.Phase.Runs() && m.ClusterID == own && (m.Here() || time.Since(m.Since) < failedKept) {
			inGroup[m.Node] = true
			here = here || m.Here()
		}
	}
	if !here {
		for _, p := range former {
			inGroup[p.Node] = true
		}
		for _, m := range members {
			if m.State == membership.Left {
				delete(inGroup, m.Node)
			}
		}
	}
	return lastPlaces(former, members, inGroup, !accepted)
}

// lastPlaces are those of the nodes of the group first, and then of the members here. All former ones keep
// their places if keep says so.
func lastPlaces(former []datadir.Peer, members []membership.Member, inGroup map[string]bool, keep bool) []datadir.Peer {
	all := make(map[string]datadir.Peer)
	for _, p := range former {
		if keep || inGroup[p.Node] {
			all[p.Node] = p
		}
	}
	for _, m := range members {
		if !m.Local && (m.Here() || inGroup[m.Node]) {
			all[m.Node] = datadir.Peer{Node: m.Node, Name: m.Name, Addr: m.Addr}
		}
	}
	rank := func(p datadir.Peer) int {
		if inGroup[p.Node] {
			return 0
		}
		return 1
	}
	peers := slices.SortedFunc(maps.Values(all), func(a, b datadir.Peer) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Node, b.Node))
	})
	return peers[:min(len(peers), datadir.PeersMax)]
}

// save writes apart from the node's goroutines, since a disk may hang, and Close waits for those. A
// write that fails is tried again after knownEvery.
func (k *known) save(peers []datadir.Peer) {
	if !k.writing.CompareAndSwap(false, true) {
		return
	}
	done := make(chan error, 1)
	go func() {
		defer k.writing.Store(false)
		done <- k.n.dir.SavePeers(peers)
	}()
	select {
	case err := <-done:
		if err == nil {
			k.saved = peers
		} else {
			k.n.log.Debug("saving the addresses of other nodes failed", "error", err)
		}
	case <-time.After(knownTime):
	}
}
