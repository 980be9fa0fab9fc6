package client

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	newsMax = 4096             // frames that wait for the follower; with more the connection ends, and the next begins with a gap
	newsLen = 16 << 20         // bytes of them, likewise
	askTime = 10 * time.Second // for one question about a gap
)

// errBehind: the follower does not keep up.
var errBehind = errors.New("holdfast: this node does not keep up with its news")

// news is what the replica tells, on its way to the follower. The reader of a connection queues it,
// and one goroutine passes it on: it asks the replica about a gap, and the reader has the answer.
type news struct {
	wake chan struct{}

	queueing sync.Mutex
	queue    []item
	bytes    int

	mu       sync.Mutex // held while the follower is told
	follower seam.Follower
	told     uint64 // the last command
	from     *conn  // whose news count
}

// item is events, a gap, ages, or a command up to which there is no further news.
type item struct {
	from    *conn
	events  []fsm.Event
	gap, at uint64
	ages    iter.Seq2[uint64, time.Duration]
	force   bool // the gap is told though no command of it is new: watches missed some
}

// push queues news that came in so many bytes.
func (n *news) push(i item, bytes int) error {
	n.queueing.Lock()
	defer n.queueing.Unlock()
	if n.bytes += bytes; len(n.queue) >= newsMax || n.bytes > newsLen {
		return errBehind
	}
	n.queue = append(n.queue, i)
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return nil
}

// take takes a frame that answers no call.
func (n *news) take(from *conn, f link.Frame) error {
	switch f.Kind {
	case link.KindGap:
		return n.push(item{from: from, gap: f.Call}, 0)
	case link.KindAges:
		ages, err := link.ParseAges(f.Body)
		if err != nil {
			return err
		}
		return n.push(item{from: from, ages: ages}, len(f.Body))
	case link.KindEvents:
		events, err := fsm.DecodeEvents(f.Body)
		if err != nil {
			return err
		}
		return n.push(item{from: from, events: events}, len(f.Body))
	}
	return errUnknownFrame
}

var errUnknownFrame = errors.New("holdfast: a frame of unknown kind")

// cut lets nothing count any more that comes from a connection before, and returns what the
// follower was told of.
func (n *news) cut() (told uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.from = nil
	return n.told
}

// resume lets the news of a connection count, which follow the command at. What is between that and
// what the follower was told of is a gap, unless it was told of nothing yet. Where it watches something the
// gap comes with the first pong.
func (n *news) resume(from *conn, at uint64, first, watches bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.from = from
	if first {
		n.told = at
	}
	if at > n.told && !watches {
		return n.push(item{from: from, gap: at}, 0)
	}
	return nil
}

// run passes news on until ctx ends.
func (n *news) run(ctx context.Context) {
	for {
		select {
		case <-n.wake:
		case <-ctx.Done():
			return
		}
		n.queueing.Lock()
		queue := n.queue
		n.queue, n.bytes = nil, 0
		n.queueing.Unlock()
		for _, i := range queue {
			n.pass(ctx, i)
		}
	}
}

// pass tells the follower, unless it knows.
func (n *news) pass(ctx context.Context, i item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i.from != n.from || n.follower == nil {
		return
	}
	if i.ages != nil {
		n.follower.Ages(i.ages)
	}
	if i.gap > n.told || i.force {
		failed := false
		n.follower.Gap(i.gap, func(q fsm.Question) (fsm.Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			answer, err := i.from.ask(ctx, seam.Now, q)
			failed = failed || err != nil
			return answer, err
		})
		if failed { // the next connection begins with this gap: what waits of this one would hide it
			n.from = nil
			i.from.end(errGone)
			return
		}
		n.told = max(n.told, i.gap)
	}
	if i.at > n.told {
		i.events = []fsm.Event{{Index: i.at}}
	}
	for len(i.events) > 0 && i.events[0].Index <= n.told {
		i.events = i.events[1:]
	}
	if len(i.events) > 0 {
		n.told = i.events[len(i.events)-1].Index
		n.follower.Applied(i.events)
	}
}
