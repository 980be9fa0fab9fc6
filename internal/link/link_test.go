package link

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
)

func opening(t testing.TB) (Open, Challenge) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(bytes.NewReader(make([]byte, 64)))
	if err != nil {
		t.Fatal(err)
	}
	c := Challenge{Version: 1, Replica: fsm.Process{Node: fsm.Node{1}, Incarnation: 7}, Nonce: [32]byte{9}}
	o := Open{Version: 1, Cluster: "fleet", Group: [16]byte{3}, Key: public, Incarnation: 5, Told: 1 << 40}
	o.Signature = ed25519.Sign(key, SignedBytes(c, "fleet", 5, []byte("binding")))
	return o, c
}

// A client that passed for another one would end its leases (S9).
func TestAClientIsWhoseKeyItProvesForThisConnectionAlone(t *testing.T) {
	t.Parallel()
	o, c := opening(t)
	if p, err := o.Verify(c, []byte("binding")); err != nil || p != (fsm.Process{Node: fsm.KeyNode(o.Key), Incarnation: 5}) {
		t.Fatalf("%v, %v", p, err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Open, *Challenge){
		"another key":         func(o *Open, _ *Challenge) { o.Key = other },
		"no key":              func(o *Open, _ *Challenge) { o.Key = nil },
		"another incarnation": func(o *Open, _ *Challenge) { o.Incarnation++ },
		"another cluster":     func(o *Open, _ *Challenge) { o.Cluster = "other" },
		"another nonce":       func(_ *Open, c *Challenge) { c.Nonce[0]++ },
		"another replica":     func(_ *Open, c *Challenge) { c.Replica.Incarnation++ },
		"no signature":        func(o *Open, _ *Challenge) { o.Signature = nil },
	} {
		o, c := opening(t)
		change(&o, &c)
		if p, err := o.Verify(c, []byte("binding")); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := o.Verify(c, []byte("of another connection")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a challenge that was passed on is accepted: %v", err)
	}
}

func TestMessagesComeOutAsTheyWere(t *testing.T) {
	t.Parallel()
	o, c := opening(t)
	w := Welcome{Group: [16]byte{3}, At: 300, Peers: []string{"a:1", "b:2"}}
	r := Reply{Code: ReplyFailed, Unknown: true, Value: 1 << 50, Payload: []byte("data"), Text: "why"}
	call := Call{Mode: 2, Millis: 70_000, Payload: []byte("command")}
	refusal := Refuse{Code: RefuseOther, Text: "another group"}
	pong := Pong{At: 300, Peers: []string{"a:1", "b:2"}}
	watch := Watch{ID: 300, Exact: true, Name: "x"}
	check := func(got any, err error, want any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v: %v", want, got, err)
		}
	}
	gotC, err := ParseChallenge(c.Append(nil))
	check(gotC, err, c)
	gotO, err := ParseOpen(o.Append(nil))
	check(gotO, err, o)
	gotW, err := ParseWelcome(w.Append(nil))
	check(gotW, err, w)
	gotR, err := ParseReply(r.Append(nil))
	check(gotR, err, r)
	gotCall, err := ParseCall(call.Append(nil))
	check(gotCall, err, call)
	gotRefusal, err := ParseRefuse(refusal.Append(nil))
	check(gotRefusal, err, refusal)
	gotPong, err := ParsePong(pong.Append(nil))
	check(gotPong, err, pong)
	pong.Unled = true
	gotPong, err = ParsePong(pong.Append(nil))
	check(gotPong, err, pong)
	gotWatch, err := ParseWatch(watch.Append(nil))
	check(gotWatch, err, watch)
	order := Order{Node: fsm.Node{1, 2}, Reason: "why"}
	gotOrder, err := ParseOrder(order.Append(nil))
	check(gotOrder, err, order)
}

// A length alone must take no memory.
func TestAFrameThatIsTooLongOrCutShortIsRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"too long":  {0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		"too short": {0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := NewReader(bytes.NewReader(b), RequestMax).Next(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := AppendFrame(nil, KindPing, 7, make([]byte, RequestMax-16))[:100]
	r := NewReader(bytes.NewReader(cut), RequestMax)
	if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) || cap(r.body) > 2*firstRead {
		t.Errorf("cut short: %v, with room for %d bytes", err, cap(r.body))
	}
}

// What waits for somebody who does not read is bounded, and nothing of a frame is sent in part.
func TestAWriterThatNobodyReadsFromIsFullAndSaysSo(t *testing.T) {
	t.Parallel()
	to, from := net.Pipe()
	defer from.Close()
	w := NewWriter(to)
	sent := 0
	for ; w.Send(KindReply, 1, make([]byte, 1<<20)) == nil; sent++ {
		if sent > BufferMax>>20 {
			t.Fatal("it takes more than its bound")
		}
	}
	if err := w.Send(KindReply, 1, make([]byte, 1<<20)); !errors.Is(err, ErrSlow) || !w.Full() {
		t.Fatalf("full: %v", err)
	}
	w.End(io.ErrClosedPipe)
	ended := make(chan error, 1)
	go func() { ended <- w.Run() }()
	frames := NewReader(from, ReplyMax)
	for i := range sent {
		if f, err := frames.Next(); err != nil || f.Kind != KindReply || len(f.Body) != 1<<20 {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := w.Send(KindPing, 0, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after its end: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	o, c := opening(f)
	for _, b := range [][]byte{
		o.Append(nil), c.Append(nil), Welcome{Peers: []string{"a:1"}}.Append(nil), Reply{Text: "why", Payload: []byte("p")}.Append(nil),
		Call{Millis: 300, Payload: []byte("p")}.Append(nil), Refuse{Code: 1, Text: "why"}.Append(nil), AppendFrame(nil, KindPing, 7, []byte("b")),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := ParseOpen(b); err == nil {
			if again, err := ParseOpen(o.Append(nil)); err != nil || !reflect.DeepEqual(again, o) {
				t.Fatalf("%+v became %+v: %v", o, again, err)
			}
			_, _ = o.Verify(Challenge{}, nil)
		}
		_, _ = ParseChallenge(b)
		_, _ = ParseWelcome(b)
		_, _ = ParsePong(b)
		_, _ = ParseWatch(b)
		_, _ = ParseOrder(b)
		_, _ = ParseRefuse(b)
		_, _ = ParseCall(b)
		_, _ = ParseReply(b)
		for r := NewReader(bytes.NewReader(b), 1<<16); ; {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	})
}

// A buffer that is written and appended to at a time would put bytes of one frame into another.
func TestAFlushOfNothingLeavesTwoBuffers(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	w, frames := NewWriter(near), NewReader(far, RequestMax)
	send := func(kind Kind) {
		t.Helper()
		if err := w.Send(kind, 1, []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	flush := func() chan error {
		done := make(chan error, 1)
		go func() { done <- w.flush() }()
		return done
	}
	read := func(done chan error, want Kind) {
		t.Helper()
		f, err := frames.Next()
		if err == nil {
			err = <-done
		}
		if err != nil || f.Kind != want {
			t.Fatalf("kind %d in the place of %d: %v", f.Kind, want, err)
		}
	}
	send(KindPing)
	read(flush(), KindPing)
	if err := w.flush(); err != nil { // of nothing: Send has woken it once too often
		t.Fatal(err)
	}
	send(KindPing)
	done := flush()
	var first [1]byte
	if _, err := far.Read(first[:]); err != nil { // the flush is in the middle of its write
		t.Fatal(err)
	}
	send(KindPong)
	frames = NewReader(io.MultiReader(bytes.NewReader(first[:]), far), RequestMax)
	if f, err := frames.Next(); err != nil || f.Kind != KindPing {
		t.Fatalf("kind %d in the place of the first: %v", f.Kind, err)
	}
	read(done, KindPong)
}

// A frame that no goroutine writes would be a call without an answer.
func TestFramesOfManyGoroutinesAllArriveInTheOrderOfEach(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	w := NewWriter(near)
	ended := make(chan error, 1)
	go func() { ended <- w.Run() }()
	const senders, each = 8, 500
	for i := range senders {
		send := w.SendNow
		if i%2 == 0 {
			send = w.Send
		}
		go func() {
			for n := range each {
				if err := send(KindReply, uint64(i), []byte{byte(n >> 8), byte(n)}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	frames, next := NewReader(far, ReplyMax), [senders]int{}
	for range senders * each {
		f, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n := int(f.Body[0])<<8 | int(f.Body[1]); n != next[f.Call] {
			t.Fatalf("frame %d of %d in the place of %d", n, f.Call, next[f.Call])
		}
		next[f.Call]++
	}
	if w.End(io.EOF); <-ended != nil {
		t.Error("the writer failed")
	}
}

// Run's caller ends the connection. It must hear of a failure that another goroutine met, also after End.
func TestAWriteThatFailsInSendNowEndsRun(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		near, far := net.Pipe()
		far.Close()
		w := NewWriter(near)
		if err := w.SendNow(KindReply, 1, nil); err != nil {
			t.Error(err)
		}
		if over {
			w.End(io.EOF)
		}
		if err := w.Run(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v", err)
		}
		near.Close()
	}
}
