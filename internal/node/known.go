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
)

const (
	knownPause = 5 * time.Second // between two comparisons of what is known with what is saved
	knownEvery = time.Minute     // between two writes
	knownTime  = time.Second     // for a write that the loop, and so Close, waits for
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
// replica may still carry out the log, and know a former membership.
func (k *known) look() (peers []datadir.Peer) {
	inGroup := make(map[string]bool)
	accepted := k.n.accepted()
	if group, _ := k.n.Proposer.Current(); group != nil {
		for _, node := range group.Members().All() {
			inGroup[node] = true
		}
	}
	all := make(map[string]datadir.Peer)
	for _, p := range k.list() {
		if !accepted || inGroup[p.Node] {
			all[p.Node] = p
		}
	}
	for _, m := range k.n.gossip.Members() {
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
	peers = slices.SortedFunc(maps.Values(all), func(a, b datadir.Peer) int {
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
