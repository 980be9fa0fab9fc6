package client

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/tally"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	openTime  = 4 * time.Second        // for a connection to be opened: a replica may have to catch up first
	pingPause = 250 * time.Millisecond // between two pings. After two without a byte another replica is looked for
	idlePause = time.Second            // the same of a node without a session
)

// errGone: the connection has ended.
var errGone = errors.New("holdfast: the connection to the replica has ended")

// conn is a connection to a replica.
type conn struct {
	raw    net.Conn
	addr   string
	began  time.Time // when the replica took the client in
	frames *link.Reader
	out    *link.Writer
	heard  tally.Traffic // of raw: while a long answer comes on a slow way, the replica is not silent
	trial  bool          // where the replica hears no raft leader this node leaves it at once. Of the reader
	awaits bool          // the first pong: the gap up to that has all news before. Of the reader
	led    atomic.Bool   // the last pong said that the replica hears a raft leader, or not that it hears none
	ponged atomic.Bool   // there was one
	gone   chan struct{}
	once   sync.Once
	cause  error // set before gone is closed

	mu    sync.Mutex
	last  uint64
	calls map[uint64]chan link.Reply
}

// identity is what a client opens its connections with.
type identity struct {
	cluster string
	key     ed25519.PrivateKey
	process fsm.Process
}

func newConn(raw net.Conn, addr string) *conn {
	c := &conn{raw: raw, addr: addr, out: link.NewWriter(raw), gone: make(chan struct{}), calls: make(map[uint64]chan link.Reply)}
	c.frames = link.NewReader(bufio.NewReader(c.heard.Conn(raw)), link.ReplyMax)
	return c
}

// open introduces the client at the other end of a connection.
func open(ctx context.Context, raw net.Conn, addr string, id identity, group [16]byte, told uint64) (*conn, link.Welcome, error) {
	c := newConn(raw, addr)
	_ = raw.SetDeadline(time.Now().Add(openTime))
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	welcome, err := c.introduce(id, group, told)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = raw.Close()
		return nil, welcome, err
	}
	c.began = time.Now()
	return c, welcome, nil
}

func (c *conn) introduce(id identity, group [16]byte, told uint64) (welcome link.Welcome, err error) {
	f, err := c.expect(link.KindChallenge)
	if err != nil {
		return welcome, err
	}
	challenge, err := link.ParseChallenge(f.Body)
	switch {
	case err != nil:
		return welcome, err
	case challenge.Version != link.Version:
		return welcome, fmt.Errorf("holdfast: the replica speaks version %d of the protocol for clients, not %d", challenge.Version, link.Version)
	}
	signed := link.SignedBytes(challenge, id.cluster, id.process.Incarnation, transport.Binding(c.raw))
	o := link.Open{
		Version: link.Version, Cluster: id.cluster, Group: group, Key: id.key.Public().(ed25519.PublicKey),
		Incarnation: id.process.Incarnation, Told: told, Signature: ed25519.Sign(id.key, signed),
	}
	if _, err := c.raw.Write(link.AppendFrame(nil, link.KindOpen, 0, o.Append(nil))); err != nil {
		return welcome, err
	}
	if f, err = c.expect(link.KindWelcome); err != nil {
		return welcome, err
	}
	return link.ParseWelcome(f.Body)
}

// expect reads a frame of a kind, or the refusal in its place.
func (c *conn) expect(kind link.Kind) (link.Frame, error) {
	f, err := c.frames.Next()
	switch {
	case err != nil:
		return f, err
	case f.Kind == link.KindRefuse:
		refusal, err := link.ParseRefuse(f.Body)
		return f, errors.Join(err, refusal)
	case f.Kind != kind:
		return f, fmt.Errorf("%w: kind %d in the place of %d", link.ErrMalformed, f.Kind, kind)
	}
	return f, nil
}

// end ends the connection. A second call changes nothing.
func (c *conn) end(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.gone)
		c.out.End(errGone)
		_ = c.raw.SetDeadline(time.Unix(1, 0))
	})
}

// run reads and writes until the connection ends; tell takes the frames that answer no call, as
// they come. While idle says so, it may take longer to find a silent replica.
func (c *conn) run(ctx context.Context, idle func() bool, tell func(link.Frame) error) error {
	defer context.AfterFunc(ctx, func() { c.end(ctx.Err()) })()
	var all sync.WaitGroup
	all.Go(func() {
		if err := c.out.Run(); err != nil {
			c.end(err)
		}
	})
	all.Go(func() { c.watch(idle) })
	for {
		f, err := c.frames.Next()
		switch {
		case err != nil:
		case f.Kind == link.KindReply:
			err = c.answer(f)
		default:
			err = tell(f)
		}
		if err != nil {
			c.end(err)
			break
		}
	}
	all.Wait()
	_ = c.raw.Close()
	return c.cause
}

// watch pings the replica, and ends the connection when it is silent.
func (c *conn) watch(idle func() bool) {
	missed, before := 0, uint64(0)
	for {
		pause := pingPause
		if idle() {
			pause = idlePause
		}
		select {
		case <-time.After(pause):
		case <-c.gone:
			return
		}
		if now := c.heard.Received.Load(); now != before {
			missed, before = 0, now
		} else if missed++; missed == 2 {
			c.end(fmt.Errorf("holdfast: the replica at %s is silent", c.addr))
			return
		}
		_ = c.out.Send(link.KindPing, 0, nil)
	}
}

// answer passes a reply to its call. A call that waits no more has none.
func (c *conn) answer(f link.Frame) error {
	r, err := link.ParseReply(f.Body)
	if err != nil {
		return err
	}
	r.Payload = append([]byte(nil), r.Payload...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.calls[f.Call]; of != nil {
		select {
		case of <- r:
		default:
			return fmt.Errorf("%w: a reply that nobody has asked for", link.ErrMalformed)
		}
	}
	return nil
}

// pending is a call that waits for its reply, or for several.
type pending struct {
	c       *conn
	number  uint64
	replies chan link.Reply
}

// begin sends a call. The error is that nothing was sent.
func (c *conn) begin(ctx context.Context, kind link.Kind, m link.Call) (pending, error) {
	if deadline, ok := ctx.Deadline(); ok {
		m.Millis = uint64(max(time.Until(deadline), 0)/time.Millisecond) + 1
	}
	return c.send(kind, m.Append(nil))
}

func (c *conn) send(kind link.Kind, body []byte) (pending, error) {
	p := pending{c: c, replies: make(chan link.Reply, 2)} // a page, and the end
	c.mu.Lock()
	c.last++
	p.number = c.last
	c.calls[p.number] = p.replies
	c.mu.Unlock()
	if err := c.out.Send(kind, p.number, body); err != nil {
		p.end()
		return p, err
	}
	return p, nil
}

// wait waits for a reply. The error is ctx's, or errGone.
func (p pending) wait(ctx context.Context) (link.Reply, error) {
	select {
	case r := <-p.replies:
		return r, nil
	case <-ctx.Done():
		_ = p.c.out.Send(link.KindCancel, p.number, nil)
		return link.Reply{}, ctx.Err()
	case <-p.c.gone:
		return link.Reply{}, errGone
	}
}

// end forgets the call.
func (p pending) end() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.calls, p.number)
}

// call is a call with one reply. sent says whether the replica may have it.
func (c *conn) call(ctx context.Context, kind link.Kind, m link.Call) (r link.Reply, sent bool, err error) {
	p, err := c.begin(ctx, kind, m)
	if err != nil {
		return r, false, err
	}
	defer p.end()
	r, err = p.wait(ctx)
	return r, true, err
}
