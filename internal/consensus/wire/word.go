package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/transport"
)

// The kernel closes the connections of a process that ends, and refuses the next dial. Voters that
// meet both tell each other, and need not wait for the election timeout. Each says so on connections
// of its own: those of the engine between two followers may be of a process that has ended since, or
// not be there.
//
// Both signs are of the network. They say nothing about a holder, and a proxy can feign them.

// Ending is an ended connection: the last one here of a process.
type Ending struct {
	Node        fsm.Node
	Replica     uint64
	Incarnation uint64
	Addr        string // where the process was
	Offered     uint64 // the last entry that it has sent here, as raft leader in Term
	Term        uint64
	Succeeded   bool // a later process of the node has connected: no dial is needed
}

// Word is what a voter says of the raft leader of a term.
type Word struct {
	Term, Leader uint64
	Last         uint64 // the last entry in the voter's log
	Pick         uint64 // the voter that is to campaign; 0: none yet
	Lives        bool   // the raft leader lives, although the voter had said otherwise
}

const wordBytes = 4*8 + 1

// Size is the size of a word on the wire.
func (w Word) Size() int { return wordBytes }

// MarshalTo writes the word.
func (w Word) MarshalTo(b []byte) (int, error) {
	out := b[:0]
	for _, v := range [...]uint64{w.Term, w.Leader, w.Last, w.Pick} {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	lives := byte(0)
	if w.Lives {
		lives = 1
	}
	return len(append(out, lives)), nil
}

// decodeWord reads a word. A later version may say more.
func decodeWord(b []byte) (w Word, err error) {
	if len(b) < wordBytes {
		return w, fmt.Errorf("%w: word of %d bytes", errFrame, len(b))
	}
	for i, v := range []*uint64{&w.Term, &w.Leader, &w.Last, &w.Pick} {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	w.Lives = b[wordBytes-1]&1 != 0
	return w, nil
}

const (
	goneTime     = 500 * time.Millisecond // for an answer: a process that starts takes a moment
	gonePause    = 5 * time.Millisecond   // between two dials at first
	gonePauseMax = 40 * time.Millisecond
)

// Gone reports whether the process of an ending is gone: nothing listens at its address any more, or
// a later process of its node does. Another one, and no answer say that it may live. Two answers are
// none, and it is asked again: a connection that is closed at once, which a process that ends may have
// accepted, and the process itself, while it has no connection here. One that closes answers
// until its port is closed.
func (c *Carrier) Gone(e Ending) bool {
	ctx, cancel := context.WithTimeout(c.ctx, goneTime)
	defer cancel()
	backoff := retry.Backoff{First: gonePause, Max: gonePauseMax}
	for attempt := 1; e.Addr != ""; attempt++ {
		there, err := c.probe(ctx, e.Addr)
		switch {
		case err == nil && there == (fsm.Process{Node: e.Node, Incarnation: e.Incarnation}):
			if c.Nodes.HasConnection(e.Replica) {
				return false
			}
		case err == nil:
			return there.Node == e.Node && after(e.Incarnation, there.Incarnation)
		case !transport.Ended(err):
			return transport.Refused(err)
		}
		if loop.Sleep(ctx, backoff.Pause(attempt, rand.Float64())) != nil {
			return false
		}
	}
	return false
}

// probe asks which process is at an address: see internal/node.
func (c *Carrier) probe(ctx context.Context, addr string) (there fsm.Process, err error) {
	conn, err := c.cfg.Endpoint.Dial(ctx, addr, transport.KindProbe)
	if err != nil {
		return there, err
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(end); err != nil {
		return there, err
	}
	var answer [fsm.ProcessBytes]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return there, err
	}
	there, _, _ = fsm.CutProcess(answer[:])
	return there, nil
}

// process is one that was said to be gone.
type process struct{ replica, incarnation uint64 }

// Await calls Config.Risen once when the process is heard, instead of any that was awaited before.
func (c *Carrier) Await(replica, incarnation uint64) {
	c.awaited.Store(&process{replica, incarnation})
}

// risen notes that a process was heard.
func (c *Carrier) risen(from *inbound) {
	p := c.awaited.Load()
	if p != nil && *p == (process{from.replica, from.incarnation}) && c.awaited.CompareAndSwap(p, nil) {
		c.cfg.Risen(p.replica)
	}
}

// ended notes that a connection has ended.
func (c *Carrier) ended(from *inbound, err error) {
	ending, last := c.Nodes.leave(from)
	if last && transport.Ended(err) && !c.silent() {
		c.cfg.Ended(ending)
	}
}

const speakPause = 20 * time.Millisecond // between two dials

// Speak says words to a replica, until ctx ends.
func (c *Carrier) Speak(ctx context.Context, replica uint64, words <-chan Word) {
	var s *sender
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for {
		select {
		case w := <-words:
			err := error(nil)
			if s == nil {
				s, err = c.speaker(ctx, replica)
			}
			if err == nil {
				err = s.send(frameWord, w, batchTimeout)
			}
			if err == nil {
				continue
			}
			if s != nil {
				s.Close()
				s = nil
			}
		case <-ctx.Done():
			return
		}
		if loop.Sleep(ctx, speakPause) != nil {
			return
		}
	}
}

func (c *Carrier) speaker(ctx context.Context, replica uint64) (*sender, error) {
	addr, err := c.Nodes.Locate(replica)
	if err != nil {
		return nil, err
	}
	s, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Nominate tells a voter to campaign against this raft leader of a term. It does so on a new connection, since
// those of the engine may be stuck behind what the network has lost, and keeps that until ctx ends or the
// voter closes it.
func (c *Carrier) Nominate(ctx context.Context, replica, term uint64) error {
	s, err := c.speaker(ctx, replica)
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.send(frameBatch, &raftpb.MessageBatch{
		BinVer: raftio.TransportBinVersion, DeploymentId: c.validator.deployment, SourceAddress: c.validator.node,
		Requests: []raftpb.Message{{
			Type: raftpb.TimeoutNow, From: c.validator.replica, To: replica, ShardID: engine.Shard, Term: term,
		}},
	}, batchTimeout)
	if err != nil {
		return err
	}
	select {
	case <-s.gone:
	case <-ctx.Done():
	}
	return nil
}

// told delivers a word, unless a later process of its sender's node was admitted.
func (c *Carrier) told(payload []byte, from *inbound) error {
	w, err := decodeWord(payload)
	if err != nil {
		return err
	}
	if !c.Nodes.superseded(from) {
		c.cfg.Word(from.replica, w)
	}
	return nil
}
