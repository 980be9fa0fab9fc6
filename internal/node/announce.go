package node

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
)

const (
	announceMax   = 16              // nodes that an announcement goes to
	announcePause = time.Second     // after the first announcement that was not followed by a word of the raft leader
	announceRare  = 5 * time.Second // the longest such pause: each is half as long again as the one before
	exchangeAfter = 3 * time.Second // without such a word: perhaps gossip has not told the raft leader of this node
	exchangeMax   = 2               // nodes that this one exchanges all news with, in each round from then on
	wordPause     = time.Second     // before a word that has arrived is sent once more
)

// announcer tells a few nodes of the group that this node asks to join, of which one is the raft leader,
// until a word of that one has come: at once, and then after pauses that grow. There is one round at a
// time. Where hundreds of nodes start at once, each would otherwise keep the raft leader from hearing the
// others.
type announcer struct {
	f       *founder
	cluster string
	rounds  rounds
	telling atomic.Int32 // calls that are under way
}

// begin announces this node to a group, the first time after a pause.
func (a *announcer) begin(cluster string, pause time.Duration) {
	a.cluster = cluster
	a.rounds.begin(time.Now(), pause)
	a.poll()
}

// poll makes the next round if it is time for it.
func (a *announcer) poll() {
	now := time.Now()
	if a.cluster == "" || !a.rounds.due(now, a.telling.Load() > 0) {
		return
	}
	member := func(p forming.Peer) bool { return p.Cluster == a.cluster }
	a.announce(member)
	if a.rounds.long(now) {
		a.tellFew(exchangeMax, a.f.n.gossip.Exchange, member)
	}
}

// rounds is when a node announces itself.
type rounds struct {
	began, next time.Time
	pause       time.Duration
}

func (r *rounds) begin(now time.Time, pause time.Duration) {
	*r = rounds{began: now, next: now.Add(pause)}
}

// due reports whether a round is to begin now. The pause after it varies by a quarter, so that nodes that
// have started at once do not go on at once.
func (r *rounds) due(now time.Time, busy bool) bool {
	if now.Before(r.next) || busy {
		return false
	}
	r.pause = min(max(r.pause*3/2, announcePause), announceRare)
	r.next = now.Add(time.Duration(float64(r.pause) * (0.75 + rand.Float64()/2)))
	return true
}

// long reports whether the node has waited for so long that it exchanges all news.
func (r *rounds) long(now time.Time) bool { return now.Sub(r.began) >= exchangeAfter }

// announce sends what gossip says of this node straight to a few nodes that wait for it, any of them.
// Gossip brings it to the others.
func (a *announcer) announce(waits func(forming.Peer) bool) {
	a.tellFew(announceMax, a.f.n.gossip.Announce, waits)
}

// tellFew tells any few of the nodes that wait, in the background.
func (a *announcer) tellFew(few int, tell func(ctx context.Context, node string) error, waits func(forming.Peer) bool) {
	peers := a.f.rivals.peers()
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	for _, p := range peers {
		if !waits(p) || few == 0 {
			continue
		}
		few--
		a.telling.Add(1)
		if !a.f.n.Go(func(ctx context.Context) {
			defer a.telling.Add(-1)
			_ = a.f.try(ctx, p.ID, func(ctx context.Context) error { return tell(ctx, p.ID) })
		}) {
			a.telling.Add(-1)
		}
	}
}

// words are those of a raft leader to the nodes that wait for it. It repeats each until gossip shows that
// it has arrived, which may take a while: a word is sent once at a time, and once more after wordPause if
// it has been sent, and at once if it has not.
type words struct {
	mu   sync.Mutex
	sent map[forming.Message]time.Time // by word; zero: it is being sent
}

// due are the words to send now. What is wanted no more is forgotten.
func (w *words) due(wanted []forming.Message, now time.Time) (due []forming.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.sent
	w.sent = make(map[forming.Message]time.Time, len(wanted))
	for _, m := range wanted {
		at, known := before[m]
		if !known || !at.IsZero() && now.Sub(at) >= wordPause {
			at = time.Time{}
			due = append(due, m)
		}
		w.sent[m] = at
	}
	return due
}

// done notes that a word has been sent, or could not be.
func (w *words) done(m forming.Message, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch _, wanted := w.sent[m]; {
	case !wanted:
	case err != nil:
		delete(w.sent, m)
	default:
		w.sent[m] = now
	}
}

// say sends those of the words that are due, in the background.
func (f *founder) say(w *words, wanted []forming.Message) {
	for _, m := range w.due(wanted, time.Now()) {
		f.n.Go(func(ctx context.Context) { w.done(m, f.deliver(ctx, m), time.Now()) })
	}
}
