package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	turnsMax = 1 << 16 // calls that wait for their turn
	// Calls under way at a time: serve.CallsMax is for all, and keepalives need no turn.
	callsMax   = 96 // of one class
	asksMax    = 32
	streamsMax = 16
	turnTime   = 10 * time.Second // that a list or a backup waits for its turn
)

// Group implements seam.Group over the connection to a replica.
type Group struct {
	closed <-chan struct{}
	news   news
	turns  [2]chan struct{} // of the classes that take turns

	asks, streams chan struct{} // turns of questions, and of lists and backups

	mu      sync.Mutex
	waiting int
	conn    *conn         // nil while there is none
	changed chan struct{} // closed when there is another
	group   [16]byte      // zero before the first
	lives   int           // groups that were given up
	maxTTL  time.Duration // of the group, the longest that a client may ask for
	watches map[uint64]link.Watch
	watched uint64 // the number of the last watch
}

func newGroup(closed <-chan struct{}) *Group {
	g := &Group{
		closed: closed, changed: make(chan struct{}), watches: make(map[uint64]link.Watch),
		asks: make(chan struct{}, asksMax), streams: make(chan struct{}, streamsMax),
	}
	g.news.wake = make(chan struct{}, 1)
	for i := range g.turns {
		g.turns[i] = make(chan struct{}, callsMax)
	}
	return g
}

// now is the connection, with a channel that closes when there is another.
func (g *Group) now() (*conn, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn, g.changed
}

// show makes c the connection that calls use, nil for none, and returns what is watched by now. The
// replica learns of a later watch by that itself.
func (g *Group) show(c *conn, w link.Welcome) []link.Watch {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn, g.group, g.maxTTL = c, w.Group, w.MaxTTL
	close(g.changed)
	g.changed = make(chan struct{})
	return slices.Collect(maps.Values(g.watches))
}

// begin goes on over a connection: its replica tells of what is watched and of later news, after the
// command at. Where something is watched, the gap is up to the first pong, which comes after all watches
// have begun: what was applied in between is missing, too. The ages come after it: a gap ends what the
// follower knew of them.
func (g *Group) begin(c *conn, welcome link.Welcome) error {
	first := g.id() == [16]byte{}
	watches := g.show(c, welcome)
	for _, w := range watches {
		if err := c.out.Send(link.KindWatch, 0, w.Append(nil)); err != nil {
			return err
		}
	}
	c.awaits = len(watches) > 0
	if err := c.out.Send(link.KindPing, 0, []byte{link.AskAges, link.AskLed}); err != nil {
		return err
	}
	return g.news.resume(c, welcome.At, first, c.awaits)
}

// forsake gives the group up, if there was one: its calls end, and the next replica is one of another
// group.
func (g *Group) forsake() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.group == [16]byte{} {
		return false
	}
	g.group, g.maxTTL = [16]byte{}, 0
	g.lives++
	close(g.changed)
	g.changed = make(chan struct{})
	return true
}

// Watch implements seam.Group. It waits for one answer of the replica; without one, the next
// connection begins with a gap.
func (g *Group) Watch(ctx context.Context, name string, exact bool) (end func()) {
	w := link.Watch{Exact: exact, Name: name}
	g.mu.Lock()
	g.watched++
	w.ID = g.watched
	g.watches[w.ID] = w
	c := g.conn
	g.mu.Unlock()
	if c != nil {
		if p, err := c.send(link.KindWatch, w.Append(nil)); err == nil {
			_, _ = p.wait(ctx)
			p.end()
		}
	}
	return func() {
		g.mu.Lock()
		delete(g.watches, w.ID)
		c := g.conn
		g.mu.Unlock()
		if c != nil {
			_ = c.out.Send(link.KindUnwatch, w.ID, nil)
		}
	}
}

// id is the id of the group, zero before there is one.
func (g *Group) id() [16]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.group
}

func takesTurns(class seam.Class) bool { return class == seam.Request || class == seam.Holding }

// Enter implements seam.Group.
func (g *Group) Enter(ctx context.Context, class seam.Class) error {
	if !takesTurns(class) {
		return nil
	}
	return g.wait(ctx, g.turns[class])
}

// wait takes a turn.
func (g *Group) wait(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	default:
	}
	g.mu.Lock()
	full, cut := g.waiting >= turnsMax, g.conn == nil
	if !full {
		g.waiting++
	}
	g.mu.Unlock()
	if full {
		return &seam.OverloadError{}
	}
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		if cut {
			return &seam.UnreachedError{Ended: ctx.Err()}
		}
		return &seam.OverloadError{Ended: ctx.Err()}
	case <-g.closed:
		return seam.ErrClosed
	}
}

// Leave implements seam.Group.
func (g *Group) Leave(class seam.Class) {
	if takesTurns(class) {
		<-g.turns[class]
	}
}

// drain lets no call in any more, and waits until those under way have their answers, or ctx ends:
// the Goodbye that follows would overtake a Release, whose caller would take its lease for lost.
func (g *Group) drain(ctx context.Context) {
	for _, turns := range g.turns {
		for range cap(turns) {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// bound is the longest TTL that a client may ask for, 0 before a replica has said it, with a channel
// that closes when there is another connection.
func (g *Group) bound() (time.Duration, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.maxTTL, g.changed
}

// life is how many groups were given up before the present one.
func (g *Group) life() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lives
}

// Waiting is how many calls wait for their turn.
func (g *Group) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// Propose implements seam.Group.
func (g *Group) Propose(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	defer g.Leave(class)
	if class == seam.Attempt {
		out, result, err := g.Try(ctx, class, cmd)
		if result == retry.Answered {
			return out, err != nil, nil
		}
		return out, result == retry.Unknown, err
	}
	out, unknown, err = g.insist(ctx, class, cmd)
	if err != nil && unknown {
		err = &seam.UnknownError{Cause: err}
	}
	return out, unknown, err
}

// Try proposes a command once, at the replica that serves this node now, and waits for its turn first:
// that replica refuses more calls at once than there are turns. An outcome may come with an error: then
// an attempt of that replica before it may have been carried out, too.
func (g *Group) Try(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, result retry.Result, err error) {
	if !g.Reached() {
		return out, retry.NotSent, seam.ErrNoGroup
	}
	if err := g.Enter(ctx, class); err != nil {
		return out, retry.NotSent, err
	}
	defer g.Leave(class)
	c, _ := g.now()
	if c == nil {
		return out, retry.NotSent, seam.ErrNoGroup
	}
	return g.attempt(ctx, c, class, cmd)
}

// Reached reports whether a replica serves this node.
func (g *Group) Reached() bool {
	c, _ := g.now()
	return c != nil
}

// insist proposes a command until its outcome is known.
func (g *Group) insist(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	var course retry.Course
	life := g.life()
	for {
		if ctx.Err() != nil {
			return fsm.Outcome{}, course.Unknown(), &seam.UnreachedError{Ended: ctx.Err()}
		}
		c, changed := g.now()
		if g.life() != life { // what was meant for one group never goes to the next
			return fsm.Outcome{}, course.Unknown(), seam.ErrSuperseded
		}
		result := retry.NotSent
		if c != nil {
			out, result, err = g.attempt(ctx, c, class, cmd)
			if result == retry.Answered && err != nil { // without one, but it may have been carried out
				course.After(retry.Unknown, 0)
				err = nil
			}
		}
		if !course.After(result, out.Code) {
			return out, course.Unknown(), err
		}
		select {
		case <-changed:
		case <-time.After(course.Pause(rand.Float64())):
		case <-ctx.Done():
		case <-g.closed:
			return fsm.Outcome{}, course.Unknown(), seam.ErrClosed
		}
	}
}

// errMaybe comes with an outcome: an attempt of the replica before it has no answer.
var errMaybe = errors.New("holdfast: an earlier attempt may have been carried out")

// attempt proposes a command once, as the replica does for it.
func (g *Group) attempt(ctx context.Context, c *conn, class seam.Class, cmd []byte) (out fsm.Outcome, result retry.Result, err error) {
	r, sent, err := c.call(ctx, link.KindPropose, link.Call{Mode: uint8(class), Payload: cmd})
	switch {
	case err != nil && sent:
		return out, retry.Unknown, err
	case err != nil:
		return out, retry.NotSent, err
	case r.Code == link.ReplyOK:
		if out, err = fsm.Unpack(r.Value, r.Payload); err != nil {
			c.end(err)
			return out, retry.Unknown, err
		}
		if r.Unknown {
			err = errMaybe
		}
		return out, retry.Answered, err
	case r.Unknown:
		return out, retry.Unknown, replyError(r)
	case r.Code == link.ReplyOverload && takesTurns(class), r.Code == link.ReplyFailed:
		return out, retry.Failed, replyError(r)
	}
	return out, retry.NotSent, replyError(r)
}

// replyError is the error of a reply, nil if it has none.
func replyError(r link.Reply) error {
	switch r.Code {
	case link.ReplyOK:
		return nil
	case link.ReplyOverload:
		return &seam.OverloadError{}
	case link.ReplySuperseded:
		return seam.ErrSuperseded
	case link.ReplyFailed:
		return fmt.Errorf("holdfast: at the replica: %s", r.Text)
	case link.ReplyUnknownNode:
		return seam.ErrUnknownNode
	case link.ReplyNotVoter:
		return seam.ErrNotVoter
	case link.ReplyNotTransferred:
		return seam.ErrNotTransferred
	}
	return seam.ErrNoGroup
}

// Follow implements seam.Group.
func (g *Group) Follow(after uint64, f seam.Follower) {
	g.news.mu.Lock()
	defer g.news.mu.Unlock()
	g.news.follower, g.news.told = f, after
}
