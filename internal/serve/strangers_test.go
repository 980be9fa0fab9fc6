package serve_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/transport"
)

// peer speaks the protocol by hand.
type peer struct {
	conn   net.Conn
	frames *link.Reader
	self   fsm.Process
}

// meet opens a connection; change spoils its Open.
func meet(t *testing.T, from transport.Endpoint, change func(*link.Open)) *peer {
	t.Helper()
	conn, err := from.Dial(t.Context(), "10.0.0.1:1", transport.KindClient)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{conn: conn, frames: link.NewReader(conn, link.ReplyMax)}
	f, err := p.frames.Next()
	if err != nil {
		t.Fatal(err)
	}
	challenge, err := link.ParseChallenge(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := link.Open{Version: link.Version, Cluster: clienttest.Cluster, Key: public, Incarnation: 1}
	o.Signature = ed25519.Sign(key, link.SignedBytes(challenge, o.Cluster, o.Incarnation, nil))
	p.self = fsm.Process{Node: fsm.KeyNode(public), Incarnation: 1}
	change(&o)
	p.send(t, link.KindOpen, 0, o.Append(nil))
	return p
}

func (p *peer) send(t *testing.T, kind link.Kind, number uint64, body []byte) {
	t.Helper()
	if _, err := p.conn.Write(link.AppendFrame(nil, kind, number, body)); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) propose(t *testing.T, number uint64, c fsm.Command) {
	t.Helper()
	p.send(t, link.KindPropose, number, link.Call{Mode: uint8(seam.Urgent), Payload: fsm.Encode(c)}.Append(nil))
}

// next is the next frame of a kind, or the refusal that comes first.
func (p *peer) next(t *testing.T, kind link.Kind) (f link.Frame, refusal string) {
	t.Helper()
	for {
		f, err := p.frames.Next()
		if err != nil {
			t.Fatalf("the connection ended without a reason: %v", err)
		}
		switch f.Kind {
		case kind:
			return f, ""
		case link.KindRefuse:
			r, err := link.ParseRefuse(f.Body)
			if err != nil {
				t.Fatal(err)
			}
			return f, r.Text
		}
	}
}

func outcome(t *testing.T, f link.Frame) fsm.Outcome {
	t.Helper()
	r, err := link.ParseReply(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	out, err := fsm.Unpack(r.Value, r.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func serving(t *testing.T, f func(t *testing.T, r *clienttest.Replica, from transport.Endpoint)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		r, err := clienttest.New(network, seamtest.New(clock.System().Now, fsm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		from, err := network.Listen(t.Context(), "peer:0", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		f(t, r, from)
	})
}

// The first pong says up to where a watch has missed something: a client that is told of less believes
// that it knows the commands between that and its Welcome, which nobody tells it.
func TestNoPongIsBehindTheWelcome(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		r.Stop() // the next server has been told of nothing
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		p := meet(t, from, func(*link.Open) {})
		defer p.conn.Close()
		f, refusal := p.next(t, link.KindWelcome)
		welcome, err := link.ParseWelcome(f.Body)
		if err != nil || refusal != "" || welcome.At == 0 {
			t.Fatalf("%+v, %q: %v", welcome, refusal, err)
		}
		p.send(t, link.KindPing, 0, nil)
		f, refusal = p.next(t, link.KindPong)
		if pong, err := link.ParsePong(f.Body); err != nil || pong.At < welcome.At {
			t.Errorf("welcome at %d, pong at %d, %q: %v", welcome.At, pong.At, refusal, err)
		}
	})
}

// A client of before closes its connection at a frame that it does not know.
func TestAgesAreToldToAClientThatAsksForThemAfterItsPong(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		p := meet(t, from, func(*link.Open) {})
		defer p.conn.Close()
		p.next(t, link.KindWelcome)
		heard := func() link.Kind {
			f, err := p.frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			return f.Kind
		}
		asks := func() {
			p.send(t, link.KindPing, 0, []byte{link.AskAges, 7}) // and what a later version may say
			if kind := heard(); kind != link.KindPong {
				t.Fatalf("kind %d in the place of a pong", kind)
			}
		}
		r.Times.Note(1, 0)
		asks()
		if kind := heard(); kind != link.KindAges {
			t.Errorf("kind %d in the place of the ages", kind)
		}
		r.Times.Forget() // a replica that has just begun
		asks()
		for range 3 {
			p.send(t, link.KindPing, 0, nil)
			if kind := heard(); kind != link.KindPong {
				t.Errorf("kind %d, which it does not know", kind)
			}
		}
	})
}

// Each of these ends its own connection with the reason, and that of another client goes on.
func TestAClientThatBreaksTheProtocolIsToldWhyAndHarmsNobody(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		good := meet(t, from, func(*link.Open) {})
		if _, refused := good.next(t, link.KindWelcome); refused != "" {
			t.Fatal(refused)
		}
		others := fsm.SessionID{Node: good.self.Node, Incarnation: 1, Number: 1}
		for want, spoil := range map[string]struct {
			open func(*link.Open)
			say  func(*peer)
		}{
			`is of cluster "test", not "other"`:          {open: func(o *link.Open) { o.Cluster = "other" }},
			"is of group":                                {open: func(o *link.Open) { o.Group = [16]byte{9} }},
			"version 1 of the protocol":                  {open: func(o *link.Open) { o.Version = 2 }},
			"does not prove its key":                     {open: func(o *link.Open) { o.Signature[3]++ }},
			"lags behind what the client knows":          {open: func(o *link.Open) { o.Group, o.Told = [16]byte{1}, 1<<40 }},
			"unknown kind 99":                            {say: func(p *peer) { p.send(t, 99, 1, nil) }},
			"at most 2097152":                            {say: func(p *peer) { _, _ = p.conn.Write([]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0}) }},
			"its body":                                   {say: func(p *peer) { p.send(t, link.KindPropose, 1, nil) }},
			"command of 1 bytes":                         {say: func(p *peer) { p.send(t, link.KindPropose, 1, link.Call{Payload: []byte{1}}.Append(nil)) }},
			"may not say fsm.Raise":                      {say: func(p *peer) { p.propose(t, 1, fsm.Raise{Counter: 1 << 40}) }},
			"may not say fsm.Batch":                      {say: func(p *peer) { p.propose(t, 1, fsm.Batch{Commands: []fsm.Command{fsm.CloseSession{Session: others}}}) }},
			"Release is about another process's session": {say: func(p *peer) { p.propose(t, 1, fsm.Release{Session: others}) }},
			"Goodbye is about another process's session": {say: func(p *peer) { p.propose(t, 1, fsm.Goodbye{Node: others.Node, Incarnation: 1}) }},
		} {
			p := meet(t, from, func(o *link.Open) {
				if spoil.open != nil {
					spoil.open(o)
				}
			})
			_, refused := p.next(t, link.KindWelcome)
			if spoil.say != nil && refused == "" {
				spoil.say(p)
				_, refused = p.next(t, link.KindReply)
			}
			if !strings.Contains(refused, want) {
				t.Errorf("%q was told %q", want, refused)
			}
			if _, err := p.frames.Next(); err == nil {
				t.Errorf("%q: the connection goes on", want)
			}
		}
		good.propose(t, 7, fsm.Hello{Node: good.self.Node, Incarnation: 1, Name: "good"})
		if f, refused := good.next(t, link.KindReply); refused != "" || outcome(t, f).Code != fsm.CodeOK || f.Call != 7 {
			t.Errorf("the other client was told %q, call %d", refused, f.Call)
		}
		synctest.Wait()
		if r.Server.Clients() != 1 {
			t.Errorf("%d clients are left", r.Server.Clients())
		}
	})
}

// A client that does not read, though it asks for much, is cut off, and takes bounded room.
// An address of the client leads to a replica of another fleet. After half a minute without its own it took
// that for the end of its group, and its leases ended.
func TestAReplicaOfAnotherFleetSaysNothingOfTheClientsGroup(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, _ *clienttest.Replica, from transport.Endpoint) {
		p := meet(t, from, func(o *link.Open) { o.Cluster = "other" })
		for {
			f, err := p.frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind != link.KindRefuse {
				continue
			}
			if r, err := link.ParseRefuse(f.Body); err != nil || r.Code != link.RefuseFault {
				t.Errorf("%+v, %v", r, err)
			}
			return
		}
	})
}

// A client that is told to come later takes its own group for alive.
func TestANodeThatIsIllRefusesAClientOfAnotherGroupAsAWellOne(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		r.Ill.Store(true)
		for _, c := range []struct {
			cluster string
			group   [16]byte
			want    link.RefuseCode
		}{
			{clienttest.Cluster, [16]byte{9}, link.RefuseOther}, {clienttest.Cluster, [16]byte{1}, link.RefuseLater},
			{clienttest.Cluster, [16]byte{}, link.RefuseLater}, {"other", [16]byte{1}, link.RefuseFault},
		} {
			p := meet(t, from, func(o *link.Open) { o.Cluster, o.Group = c.cluster, c.group })
			f, _ := p.next(t, link.KindWelcome)
			if refusal, err := link.ParseRefuse(f.Body); f.Kind != link.KindRefuse || err != nil || refusal.Code != c.want {
				t.Errorf("a client of %q, group %d: kind %d, %+v, %v", c.cluster, c.group[0], f.Kind, refusal, err)
			}
		}
	})
}

// A client whose list waited for a lock stayed where nothing is granted, with all its leases, for ever.
func TestAListKeepsItsClientAtAReplicaWithoutARaftLeaderForAWhile(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		p := meet(t, from, func(*link.Open) {})
		if _, refused := p.next(t, link.KindWelcome); refused != "" {
			t.Fatal(refused)
		}
		p.send(t, link.KindList, 1, link.Call{Payload: fsm.EncodeQuestion(fsm.QueryLocks{})}.Append(nil))
		r.Unled.Store(true)
		began := time.Now()
		for {
			time.Sleep(time.Second)
			p.send(t, link.KindPing, 0, nil)
			if _, refused := p.next(t, link.KindPong); refused != "" {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it stays")
			}
		}
		if stayed := time.Since(began); stayed < 9*time.Second {
			t.Errorf("its list was cut after %v", stayed)
		}
	})
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		p := meet(t, from, func(*link.Open) {})
		if _, refused := p.next(t, link.KindWelcome); refused != "" {
			t.Fatal(refused)
		}
		value := make([]byte, fsm.ValueBytesMax)
		p.propose(t, 1, fsm.Hello{Node: p.self.Node, Incarnation: 1, Name: "slow"})
		p.propose(t, 2, fsm.Acquire{
			Session: fsm.SessionID{Node: p.self.Node, Incarnation: 1, Number: 1}, TTL: time.Hour, Request: 1, Name: "x", HasValue: true, Value: value,
		})
		q := link.Call{Payload: fsm.EncodeQuestion(fsm.QueryName{Name: "x"})}.Append(nil)
		_ = p.conn.SetWriteDeadline(time.Now().Add(time.Minute))
		for n := uint64(3); n < 1<<16; n++ {
			if _, err := p.conn.Write(link.AppendFrame(nil, link.KindAsk, n, q)); err != nil {
				break
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.Server.Clients() != 0 {
			t.Error("it is served for ever")
		}
	})
}

// What is under way beyond the bound of one client is refused, and its connection goes on.
func TestOneClientHasBoundedCallsUnderWay(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, _ *clienttest.Replica, from transport.Endpoint) {
		p := meet(t, from, func(*link.Open) {})
		if _, refused := p.next(t, link.KindWelcome); refused != "" {
			t.Fatal(refused)
		}
		q := fsm.EncodeQuestion(fsm.QueryLocks{})
		for n := range uint64(serve.CallsMax + 1) { // lists that nobody reads on
			p.send(t, link.KindList, n+1, link.Call{Payload: q}.Append(nil))
		}
		refused := 0
		for range serve.CallsMax + 1 {
			f, _ := p.next(t, link.KindReply)
			r, err := link.ParseReply(f.Body)
			if err != nil {
				t.Fatal(err)
			}
			if r.Code == link.ReplyOverload {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d are refused", refused)
		}
		p.send(t, link.KindCancel, 1, nil)
		if f, _ := p.next(t, link.KindReply); f.Call != 1 {
			t.Errorf("call %d has ended", f.Call)
		}
	})
}

// A client of before takes a longer pong for a fault.
func TestAReplicaWithoutARaftLeaderSaysSoToAClientThatAsks(t *testing.T) {
	t.Parallel()
	serving(t, func(t *testing.T, r *clienttest.Replica, from transport.Endpoint) {
		r.Unled.Store(true)
		p := meet(t, from, func(*link.Open) {})
		defer p.conn.Close()
		p.next(t, link.KindWelcome)
		for _, c := range []struct {
			body []byte
			want bool
		}{{nil, false}, {[]byte{link.AskAges}, false}, {[]byte{0, link.AskLed}, true}, {nil, true}} {
			p.send(t, link.KindPing, 0, c.body)
			f, refusal := p.next(t, link.KindPong)
			if pong, err := link.ParsePong(f.Body); err != nil || pong.Unled != c.want {
				t.Errorf("after %v: %+v, %q: %v", c.body, pong, refusal, err)
			}
		}
	})
}
