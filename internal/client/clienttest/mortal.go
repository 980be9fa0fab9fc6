package clienttest

import (
	"context"
	"iter"
	"sync"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/transport"
)

// NewMortal is New of a replica that is killed at the second call of its clients, and then ever more
// rarely: in turn after the call was carried out, with the answer on its way, and before. At once the
// other address of the two serves the same state.
func NewMortal(network *transport.Memory, group *seamtest.Group) (*Replica, error) {
	r := &Replica{Group: group, Network: network}
	calls, next, deaths := 0, 2, 0
	r.Die(func(any) (before, after bool) {
		if calls++; calls != next {
			return false, false
		}
		deaths++
		next += deaths + 2
		return deaths%2 == 0, deaths%2 == 1
	})
	return start(r)
}

// Die has the replica killed, as that of NewMortal, where at says so of a call of its clients: a
// fsm.Command or a fsm.Question. Nil is the end of that.
func (r *Replica) Die(at func(call any) (before, after bool)) {
	r.deaths.mu.Lock()
	defer r.deaths.mu.Unlock()
	r.deaths.at = at
}

// deaths are those of a replica.
type deaths struct {
	dying sync.Mutex // held while it is killed
	ended bool       // the replica is killed no more; under dying

	mu    sync.Mutex
	at    func(call any) (before, after bool)
	count int
}

// turn reports whether the replica dies before a call is carried out, or after.
func (d *deaths) turn(call any) (before, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != nil {
		before, after = d.at(call)
	}
	if before || after {
		d.count++
	}
	return before, after
}

// end is the end of all deaths.
func (d *deaths) end() {
	d.mu.Lock()
	d.at = nil
	d.mu.Unlock()
	d.dying.Lock() // of the last
	defer d.dying.Unlock()
	d.ended = true // a call that is to kill it may not have come to that yet
}

// Deaths is how often the replica was killed.
func (r *Replica) Deaths() int {
	r.deaths.mu.Lock()
	defer r.deaths.mu.Unlock()
	return r.deaths.count
}

// die kills the replica: what is under way to its clients and from them is lost.
func (r *Replica) die() {
	r.deaths.dying.Lock()
	defer r.deaths.dying.Unlock()
	if r.deaths.ended {
		return
	}
	next := addrs()[0]
	if r.Addr == next {
		next = addrs()[1]
	}
	r.Network.Break(r.Addr, "*")
	r.cancel()
	r.running.Go(r.end) // die is called by one that is served
	_ = r.endpoint.Close()
	if err := r.Start(next); err != nil {
		panic(err)
	}
}

// mortal is the group as a replica has it that may be killed at any call.
type mortal struct {
	*seamtest.Group
	r *Replica
}

// Propose implements seam.Group.
func (m mortal) Propose(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	said, err := fsm.Decode(cmd)
	if err != nil {
		return out, false, err
	}
	before, after := m.r.deaths.turn(said)
	if before {
		m.r.die()
		return out, false, seam.ErrEnded
	}
	out, unknown, err = m.Group.Propose(ctx, class, cmd)
	if after {
		m.r.die()
	}
	return out, unknown, err
}

// Ask implements seam.Group.
func (m mortal) Ask(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	if _, ok := q.(fsm.QueryGroup); ok { // the server's own
		return m.Group.Ask(ctx, view, q)
	}
	before, after := m.r.deaths.turn(q)
	if before {
		m.r.die()
		return nil, seam.ErrEnded
	}
	answer, err := m.Group.Ask(ctx, view, q)
	if after {
		m.r.die()
	}
	return answer, err
}

// Pages implements seam.Group. The replica dies before them alone: a list that is cut short ends with
// an error.
func (m mortal) Pages(ctx context.Context, view seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		if before, after := m.r.deaths.turn(q); before || after {
			m.r.die()
			return
		}
		m.Group.Pages(ctx, view, q)(yield)
	}
}
