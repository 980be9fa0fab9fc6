package lease_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// clockModel is a node's clock: it runs at its own rate and from its own origin.
type clockModel struct {
	rate float64
	now  lease.Instant
}

func (c *clockModel) pass(true_ time.Duration) { c.now += lease.Instant(float64(true_) * c.rate) }

// entry of the log: a renewal (or the opening), or an expiry.
type entry struct {
	index, session uint64
	seq            uint64        // of a renewal: one that is not above the last is carried out no more
	ttl            time.Duration // of the session from then on; 0: as it is
	sent           lease.Instant // on the holder's clock
	expires        bool
	renewed        uint64
	told           bool
	at             time.Duration // when it reaches the raft leader, in true time
	answer         time.Duration // when its outcome reaches the holder, in true time
}

type replicaModel struct {
	clockModel
	expiries *lease.Expiries
	applied  int // entries of the log
}

// history is one holder, some replicas, their clocks, a log, and messages under way, in true time.
type history struct {
	*rand.Rand
	ttl      time.Duration
	now      time.Duration
	holder   clockModel
	plan     *lease.Plan
	valid    map[uint64]lease.Instant // the validity that the holder goes by
	replicas []*replicaModel
	leader   int
	log      []entry
	flight   []entry
	renewed  map[uint64]uint64 // by session: the log's last renewal
	seqs     map[uint64]uint64 // and its number
	ttls     map[uint64]time.Duration
	seq      uint64
	ended    int
	loss     float64
}

func newHistory(seed uint64) *history {
	h := &history{
		Rand:    rand.New(rand.NewPCG(seed, 1)),
		valid:   map[uint64]lease.Instant{},
		renewed: map[uint64]uint64{},
		seqs:    map[uint64]uint64{},
		ttls:    map[uint64]time.Duration{},
	}
	drift := []float64{0, 0.001, 0.01, 0.1}[h.IntN(4)]
	h.ttl = []time.Duration{100, 1000, 15000}[h.IntN(3)] * time.Millisecond
	h.loss = []float64{0, 0.2, 0.8}[h.IntN(3)]
	rate := func() float64 { return 1 + drift/2*float64(h.IntN(3)-1) }
	origin := func() lease.Instant { return lease.Instant(h.Int64N(int64(1000 * time.Hour))) }
	h.holder = clockModel{rate(), origin()}
	h.plan = lease.NewPlan(drift, h.Float64)
	for range 1 + h.IntN(3) {
		h.replicas = append(h.replicas, &replicaModel{
			clockModel: clockModel{rate(), origin()},
			expiries:   lease.NewExpiries(h.ttl/8, h.ttl/20),
		})
	}
	return h
}

// send puts an entry on its way to the log: it may get lost, be late, or arrive twice.
func (h *history) send(e entry) {
	for range 1 + h.IntN(2) {
		if h.Float64() < h.loss {
			continue
		}
		e.at = h.now + time.Duration(h.ExpFloat64()*float64(h.ttl)/10)
		h.flight = append(h.flight, e)
	}
}

// pass lets true time pass; a suspended or restarting machine is one big step for its clock alone.
func (h *history) pass() {
	d := h.ttl / time.Duration(20+h.IntN(200))
	h.now += d
	h.holder.pass(d)
	if h.IntN(2000) == 0 {
		h.holder.pass(h.ttl / 2) // a jump ahead: ends leases sooner
	}
	for _, r := range h.replicas {
		if h.IntN(50) > 0 { // else its clock stands still
			r.pass(d)
		}
	}
}

func (h *history) commit() error {
	for i := 0; i < len(h.flight); i++ {
		e := h.flight[i]
		if e.at > h.now {
			continue
		}
		h.flight = slices.Delete(h.flight, i, i+1)
		i--
		last, open := h.renewed[e.session]
		switch {
		case e.expires:
			if !open || last != e.renewed {
				continue
			}
			h.ended++
			h.renewed[e.session] = 0
			if now := h.holder.now; now < h.valid[e.session] {
				return fmt.Errorf("session %d expired %v before the end of its holder's validity", e.session, h.valid[e.session].Sub(now))
			}
		case open && last == 0:
			continue // a renewal of an ended session
		case e.seq <= h.seqs[e.session]:
			continue
		default:
			h.seqs[e.session], h.ttls[e.session] = e.seq, cmp.Or(e.ttl, h.ttls[e.session])
			e.ttl = h.ttls[e.session]
			e.index = uint64(len(h.log) + 1)
			h.renewed[e.session] = e.index
			e.answer = h.now + time.Duration(h.ExpFloat64()*float64(h.ttl)/10)
		}
		e.index = uint64(len(h.log) + 1)
		h.log = append(h.log, e)
	}
	return nil
}

// hear gives the holder the answers that have arrived.
func (h *history) hear() error {
	for i := max(0, len(h.log)-50); i < len(h.log); i++ {
		e := &h.log[i]
		if e.expires || e.told || e.answer > h.now {
			continue
		}
		e.told = true
		var validUntil lease.Instant
		ok := true
		if _, open := h.valid[e.session]; !open {
			validUntil = h.plan.Open(e.session, h.ttl, e.sent, e.session%2 == 0)
		} else if e.session%2 == 1 {
			validUntil, _, ok = h.plan.Retimed(e.session, e.seq, e.ttl, e.sent, h.holder.now)
		} else {
			validUntil, _, ok = h.plan.Renewed(e.session, e.sent, h.holder.now)
		}
		if !ok {
			continue
		}
		h.valid[e.session] = validUntil
		if h.renewed[e.session] == 0 && h.holder.now < validUntil {
			return fmt.Errorf("session %d valid for %v after it expired", e.session, validUntil.Sub(h.holder.now))
		}
	}
	return nil
}

func (h *history) hold() {
	a := h.plan.Step(h.holder.now)
	for _, n := range a.Renew {
		h.seq++
		h.send(entry{session: n, seq: h.seq, sent: h.holder.now})
	}
	for n := uint64(1); n <= 3; n += 2 { // renewed by hand, with another TTL each time
		if h.IntN(40) > 0 || h.holder.now >= h.valid[n] {
			continue
		}
		h.seq++
		ttl := h.ttl * time.Duration(1+h.IntN(8)) / 4
		if validUntil, ok := h.plan.Retime(n, h.seq, ttl, h.holder.now); ok {
			h.valid[n] = validUntil
			h.send(entry{session: n, seq: h.seq, ttl: ttl, sent: h.holder.now})
		}
	}
}

func (h *history) replicate(i int) {
	r := h.replicas[i]
	if h.IntN(500) == 0 { // restart: from a snapshot of what it had applied
		r.expiries.Reset()
		state := map[uint64]entry{}
		for _, e := range h.log[:r.applied] {
			state[e.session] = e
			if e.expires {
				delete(state, e.session)
			}
		}
		for n, e := range state {
			r.expiries.Renewed(session(n), e.index, e.ttl, r.now)
		}
	}
	for ; r.applied < len(h.log) && h.IntN(10) > 0; r.applied++ {
		if e := h.log[r.applied]; e.expires {
			r.expiries.Ended(session(e.session), r.now)
		} else {
			r.expiries.Renewed(session(e.session), e.index, e.ttl, r.now)
		}
	}
	due, _ := r.expiries.Step(r.now, i == h.leader, 1000)
	for _, d := range due {
		h.send(entry{session: d.ID.Number, expires: true, renewed: d.Renewed})
	}
}

func (h *history) run(steps int) error {
	for range steps {
		if h.IntN(100) == 0 {
			h.leader = h.IntN(len(h.replicas) + 1) // or nobody
		}
		if len(h.renewed) < 3 && h.IntN(100) == 0 {
			n := uint64(len(h.renewed) + 1)
			h.log = append(h.log, entry{index: uint64(len(h.log) + 1), session: n, ttl: h.ttl, sent: h.holder.now, answer: h.now})
			h.ttls[n] = h.ttl
			h.renewed[n] = uint64(len(h.log))
		}
		h.pass()
		if err := h.commit(); err != nil {
			return err
		}
		if err := h.hear(); err != nil {
			return err
		}
		h.hold()
		for i := range h.replicas {
			h.replicate(i)
		}
	}
	return nil
}

// S3 under everything that the two sides meet: drift to the bound on both, standing and jumping
// clocks, lost, late and duplicate renewals and expiries, changing raft leaders, restarts from a
// snapshot.
func TestNoSessionExpiresBeforeItsHoldersEndOfValidityInAnyHistory(t *testing.T) {
	t.Parallel()
	ended := 0
	for seed := range uint64(2000) {
		h := newHistory(seed)
		if err := h.run(1000); err != nil {
			t.Fatalf("seed %d, ttl %v, at %v: %v", seed, h.ttl, h.now, err)
		}
		ended += h.ended
	}
	if ended < 2000 {
		t.Errorf("only %d sessions expired: the histories say nothing", ended)
	}
}
