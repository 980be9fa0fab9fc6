package serve

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	openTime = 3 * time.Second  // until a connection has to be a client's
	idleTime = 10 * time.Second // without a byte of a client, which pings far more often
	endTime  = time.Second      // for the last frames of a connection that ends
	lagTime  = 2 * time.Second  // for a replica to catch up with what a client knows
	lagPause = 20 * time.Millisecond

	unledStay = 3 * time.Second  // at a replica without a raft leader: perhaps no replica has one
	listStay  = 10 * time.Second // longer than that, a list does not keep its client there: its caller may wait for a lock

	eventsMax = 1 << 20 // bytes of events in a frame, about
)

// client is a connection of a client.
type client struct {
	s       *Server
	conn    net.Conn
	cancel  context.CancelFunc // of all that goes on here
	out     *link.Writer
	process fsm.Process
	since   time.Time
	under   atomic.Int32 // calls under way
	asksLed atomic.Bool  // it understands Pong.Unled
	all     sync.WaitGroup

	mu    sync.Mutex
	calls map[uint64]*call

	// Under Server.mu.
	after   uint64 // what is applied later is told
	news    []*fsm.Event
	watches map[uint64]watched
}

// call is one that is under way.
type call struct {
	cancel context.CancelFunc
	next   chan struct{} // of a List: the client wants another page
	stays  time.Time     // until when it keeps its client here: of several replies, of a state that this replica keeps
}

// serve is the life of a connection.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	c := &client{s: s, conn: conn, since: time.Now(), cancel: cancel, out: link.NewWriter(conn), calls: make(map[uint64]*call), watches: make(map[uint64]watched)}
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := c.out.Run(); err != nil {
			c.end(err)
		}
	})
	stop := context.AfterFunc(ctx, func() { c.end(link.Refuse{Code: link.RefuseLater, Text: "the replica ends"}) })
	err := c.run(ctx)
	stop() // before cancel: that would say that the replica ends
	cancel()
	s.leave(c)
	c.end(err)
	c.all.Wait()
	writing.Wait()
	_ = conn.Close()
	refusal, refused := errors.AsType[link.Refuse](err)
	if errors.Is(err, link.ErrMalformed) || refused && refusal.Code != link.RefuseLater {
		s.refused(conn, c.process, err)
	}
}

// refused says in the log that a client is refused, which goes on asking, and may be one of a thousand.
func (s *Server) refused(conn net.Conn, client fsm.Process, err error) {
	if unreported, ok := s.refusals.Take(time.Now()); ok {
		s.cfg.Logger.Warn("refused a client",
			"from", conn.RemoteAddr().String(), "client", client.Node.String(), "error", err, "unreported", unreported)
	}
}

// end lets the client know why its connection ends, and ends it soon. A second call changes nothing.
func (c *client) end(err error) {
	refusal := link.Refuse{Code: link.RefuseFault, Text: fmt.Sprint(err)}
	if r, ok := errors.AsType[link.Refuse](err); ok {
		refusal = r
	} else if !errors.Is(err, link.ErrMalformed) {
		refusal.Code = link.RefuseLater
	}
	_ = c.out.Send(link.KindRefuse, 0, refusal.Append(nil))
	c.out.End(net.ErrClosed)
	c.cancel()
	_ = c.conn.SetWriteDeadline(time.Now().Add(endTime))
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// run opens the connection, and takes the frames of the client.
func (c *client) run(ctx context.Context) error {
	frames := link.NewReader(bufio.NewReader(c.conn), link.RequestMax)
	_ = c.conn.SetReadDeadline(time.Now().Add(openTime))
	if err := c.open(ctx, frames); err != nil {
		return err
	}
	var renewed time.Time
	for {
		if now := time.Now(); now.Sub(renewed) > idleTime/10 { // a deadline for each frame is 1 % of a call
			renewed = now
			_ = c.conn.SetReadDeadline(now.Add(idleTime))
		}
		if ctx.Err() != nil { // only after that: end sets the deadline after the end of ctx
			return ctx.Err()
		}
		f, err := frames.Next()
		if err == nil {
			err = c.take(ctx, f)
		}
		if err != nil {
			return err
		}
	}
}

// open finds out who the client is, and what it has.
func (c *client) open(ctx context.Context, frames *link.Reader) error {
	challenge := link.Challenge{Version: link.Version, Replica: c.s.cfg.Self}
	_, _ = rand.Read(challenge.Nonce[:])
	if err := c.out.Send(link.KindChallenge, 0, challenge.Append(nil)); err != nil {
		return err
	}
	f, err := frames.Next()
	if err != nil {
		return err
	}
	o, err := link.ParseOpen(f.Body)
	switch {
	case f.Kind != link.KindOpen || err != nil:
		return fmt.Errorf("%w: kind %d in the place of an Open", link.ErrMalformed, f.Kind)
	case o.Version != link.Version:
		return fault("this replica speaks version %d of the protocol for clients, not %d", link.Version, o.Version)
	case o.Cluster != c.s.cfg.Cluster:
		return fault("this replica is of cluster %q, not %q", c.s.cfg.Cluster, o.Cluster) // which says nothing of the client's own group
	}
	if c.process, err = o.Verify(challenge, transport.Binding(c.conn)); err != nil {
		return err
	}
	// The group comes first: a client that is told to come later takes its own group for alive.
	if err := others(c.s.cfg.GroupID(), o.Group); err != nil {
		return err
	}
	if !c.s.cfg.Well() {
		return link.Refuse{Code: link.RefuseLater, Text: "this node has no replica, is ill, or leaves"}
	}
	return c.caughtUp(ctx, o)
}

// others refuses a client of another group. Zero is none, of the node or of the client.
func others(own, client [16]byte) error {
	if none := [16]byte{}; own == none || client == none || own == client {
		return nil
	}
	return link.Refuse{Code: link.RefuseOther, Text: fmt.Sprintf("this node is of group %v, not %v", fsm.Node(own), fsm.Node(client))}
}

// caughtUp enters the client when the replica knows what the client knows (V4).
func (c *client) caughtUp(ctx context.Context, o link.Open) error {
	later := func(text string) error { return link.Refuse{Code: link.RefuseLater, Text: text} }
	deadline := time.Now().Add(lagTime)
	for {
		state, err := seam.Ask(ctx, c.s.cfg.Group, seam.Now, fsm.QueryGroup{})
		if err != nil || !state.Born {
			return later("this replica has no group yet")
		}
		if err := others(state.Cluster, o.Group); err != nil { // the replica is another one by now
			return err
		}
		switch {
		case o.Group == [16]byte{} || state.Commands >= o.Told:
			return c.s.enter(ctx, c)
		case time.Now().After(deadline):
			return later("this replica lags behind what the client knows")
		}
		if loop.Sleep(ctx, lagPause) != nil {
			return ctx.Err()
		}
	}
}

func fault(format string, args ...any) error {
	return link.Refuse{Code: link.RefuseFault, Text: fmt.Sprintf(format, args...)}
}

// take takes a frame.
func (c *client) take(ctx context.Context, f link.Frame) error {
	switch f.Kind {
	case link.KindPing:
		if len(f.Body) > 1 && f.Body[1] == link.AskLed {
			c.asksLed.Store(true)
		}
		err := c.pong()
		if err == nil && len(f.Body) > 0 && f.Body[0] == link.AskAges {
			err = c.ages()
		}
		return err
	case link.KindNext, link.KindCancel:
		c.mu.Lock()
		defer c.mu.Unlock()
		of := c.calls[f.Call]
		switch {
		case of == nil: // it is over
		case f.Kind == link.KindCancel:
			of.cancel()
		default:
			select {
			case of.next <- struct{}{}:
			default:
			}
		}
		return nil
	case link.KindWatch:
		w, err := link.ParseWatch(f.Body)
		if err == nil {
			err = c.s.watch(c, w)
		}
		if err != nil {
			return err
		}
		return c.out.Send(link.KindReply, f.Call, link.Reply{}.Append(nil))
	case link.KindUnwatch:
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		c.s.unwatch(c, f.Call)
		return nil
	case link.KindPropose, link.KindAsk, link.KindList, link.KindReady, link.KindFleet, link.KindRemove, link.KindTransfer, link.KindBackup:
		return c.begin(ctx, f)
	}
	return fmt.Errorf("%w: of unknown kind %d", link.ErrMalformed, f.Kind)
}

// pong says that the client knows all news of the commands so far. It ends the connection of a
// replica that another one would serve better. Where the client asks, it says whether a raft leader is heard.
func (c *client) pong() error {
	if !c.s.cfg.Well() {
		return link.Refuse{Code: link.RefuseLater, Text: "this replica is ill, or leaves"}
	}
	unled := !c.s.cfg.Led()
	if unled && time.Since(c.since) > unledStay && !c.stays() {
		return link.Refuse{Code: link.RefuseLater, Text: "this replica hears no raft leader"}
	}
	peers := c.s.cfg.Peers()
	c.s.mu.Lock() // the news of these commands are before it
	defer c.s.mu.Unlock()
	// The state that the client began with may have commands of which the server is told only now.
	return c.out.Send(link.KindPong, 0, link.Pong{At: max(c.s.at, c.after), Peers: peers, Unled: unled && c.asksLed.Load()}.Append(nil))
}

// ages tells the client how long ago commands were applied that it was not told of.
func (c *client) ages() error {
	ages := link.AppendAges(nil, c.s.cfg.Times.Ages(c.s.cfg.Now()))
	if len(ages) == 0 {
		return nil
	}
	return c.out.Send(link.KindAges, 0, ages)
}

// stays reports whether a list or a backup is under way that would be cut short.
func (c *client) stays() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.calls {
		if time.Now().Before(of.stays) {
			return true
		}
	}
	return false
}

// begin starts a call on a goroutine of its own.
func (c *client) begin(ctx context.Context, f link.Frame) error {
	m, err := link.ParseCall(f.Body)
	if err != nil {
		return err
	}
	do, err := c.work(f.Kind, m)
	if err != nil {
		return err
	}
	if c.under.Add(1) > CallsMax {
		c.under.Add(-1)
		return c.out.Send(link.KindReply, f.Call, link.Reply{Code: link.ReplyOverload}.Append(nil))
	}
	ctx, cancel := callContext(ctx, m.Millis)
	of := &call{cancel: cancel, next: make(chan struct{}, 1)}
	switch f.Kind {
	case link.KindBackup: // of a group without a majority, perhaps: no other replica is better
		of.stays = time.Now().AddDate(1, 0, 0)
	case link.KindList:
		of.stays = time.Now().Add(listStay)
	}
	c.mu.Lock()
	_, twice := c.calls[f.Call]
	c.calls[f.Call] = of
	c.mu.Unlock()
	if twice {
		cancel()
		return fmt.Errorf("%w: a second call of number %d", link.ErrMalformed, f.Call)
	}
	number := f.Call
	c.all.Add(1)
	c.s.workers.do(func() {
		defer c.all.Done()
		defer cancel()
		reply := do(ctx, number, of)
		c.mu.Lock()
		delete(c.calls, number)
		c.mu.Unlock()
		c.under.Add(-1) // before the client has the reply, and sends its next call
		c.reply(number, reply)
	})
	return nil
}

// callContext ends when the caller gives up.
func callContext(ctx context.Context, millis uint64) (context.Context, context.CancelFunc) {
	if millis == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(min(millis, 1<<40))*time.Millisecond)
}

// reply sends the answer to a call, and reports whether it was not too long. A client that does not read
// is cut off.
func (c *client) reply(number uint64, r link.Reply) (fits bool) {
	body := r.Append(nil)
	if fits = len(body) <= link.ReplyMax-64; !fits {
		body = link.Reply{Code: link.ReplyFailed, Text: "the answer is too long"}.Append(nil)
	}
	if err := c.out.SendNow(link.KindReply, number, body); errors.Is(err, link.ErrSlow) {
		c.end(link.ErrSlow)
	}
	return fits
}

// note notes an event for the client, and reports whether it is the first one. The caller holds
// Server.mu.
func (c *client) note(e *fsm.Event) (first bool) {
	n := len(c.news)
	if e.Index <= c.after || n > 0 && c.news[n-1] == e {
		return false
	}
	c.news = append(c.news, e)
	return n == 0
}

// tell sends the client its news. The caller holds Server.mu.
func (c *client) tell() {
	for news := c.news; len(news) > 0; {
		n := frameOf(news)
		events := make([]fsm.Event, n)
		for i, e := range news[:n] {
			events[i] = *e
		}
		news = news[n:]
		err := link.ErrSlow
		if !c.out.Full() {
			err = c.out.Send(link.KindEvents, 0, fsm.AppendEvents(nil, events))
		}
		if errors.Is(err, link.ErrSlow) {
			c.end(link.ErrSlow)
		}
	}
	clear(c.news)
	c.news = c.news[:0]
}

// frameOf is how many of some events go into one frame: whole commands.
func frameOf(news []*fsm.Event) int {
	size := 0
	for i, e := range news {
		if size >= eventsMax && e.Index != news[i-1].Index {
			return i
		}
		size += len(e.Value) + len(e.Name) + len(e.Label)
	}
	return len(news)
}

// skip tells the client of a gap. The caller holds Server.mu.
func (c *client) skip(last uint64) {
	if last <= c.after {
		return
	}
	c.after = last
	if err := c.out.Send(link.KindGap, last, nil); errors.Is(err, link.ErrSlow) {
		c.end(link.ErrSlow)
	}
}
