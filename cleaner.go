package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	cleaners = 4    // goroutines that clean up while there is something to clean up
	cleanMax = 1024 // withdrawals or releases in one command

	cleanPause = 100 * time.Millisecond // until what the group had no room for is tried again
)

// cleaner tells the group, in the background and until it has heard it, what this node has given up:
// calls whose context ended, leases released without an answer, sessions lost here. What it is given
// is bounded by the unfinished calls and the leases that it comes from.
type cleaner struct {
	c *Cluster

	mu      sync.Mutex
	jobs    map[*session]*chores
	turn    []*session // in order of arrival
	running int        // goroutines of run
}

// chores are what is to be cleaned up of one session.
type chores struct {
	withdraw []uint64
	release  []fsm.Grant
	rest     []resting
	close    bool
	lost     bool // close is for a session that was lost
}

// resting is a release after which the place stays taken.
type resting struct {
	lease   *Lease
	release fsm.Release
}

func (cl *cleaner) init(c *Cluster) {
	cl.c = c
	cl.jobs = make(map[*session]*chores)
}

func (cl *cleaner) withdraw(s *session, request uint64) {
	cl.add(s, func(j *chores) { j.withdraw = append(j.withdraw, request) })
}

func (cl *cleaner) release(l *Lease) {
	grant := fsm.Grant{Name: l.name, Token: uint64(l.token)}
	rest := l.rest()
	if rest == 0 {
		l.left()
	}
	cl.add(l.session, func(j *chores) {
		if rest == 0 {
			j.release = append(j.release, grant)
			return
		}
		j.rest = append(j.rest, resting{l, fsm.Release{Session: l.session.id, Grants: []fsm.Grant{grant}, Rest: rest, Close: l.session.manual}})
	})
}

func (cl *cleaner) close(s *session, lost bool) {
	cl.add(s, func(j *chores) { j.close, j.lost = true, lost })
}

func (cl *cleaner) add(s *session, put func(*chores)) {
	cl.mu.Lock()
	j := cl.jobs[s]
	if j == nil {
		j = &chores{}
		cl.jobs[s] = j
		cl.turn = append(cl.turn, s)
	}
	put(j)
	start := cl.running < cleaners
	if start {
		cl.running++
	}
	cl.mu.Unlock()
	if start {
		cl.c.goRun(cl.run)
	}
}

// next takes the chores of one session. When there are none the goroutine that asks must end.
func (cl *cleaner) next() (*session, *chores) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if len(cl.turn) == 0 {
		cl.running--
		return nil, nil
	}
	s := cl.turn[0]
	cl.turn = cl.turn[1:]
	j := cl.jobs[s]
	delete(cl.jobs, s)
	return s, j
}

// run cleans up until nothing is left to do or ctx ends.
func (cl *cleaner) run(ctx context.Context) {
	for s, j := cl.next(); s != nil && ctx.Err() == nil; s, j = cl.next() {
		cl.do(ctx, s, j)
	}
}

func (cl *cleaner) do(ctx context.Context, s *session, j *chores) {
	for _, r := range j.rest {
		if _, err := cl.insist(ctx, r.release); err != nil {
			return
		}
		r.lease.left()
		cl.c.keeper.closed(s)
	}
	if j.close {
		// The end of the session ends all that hangs on it.
		if _, err := cl.insist(ctx, fsm.CloseSession{Session: s.id, Lost: j.lost}); err == nil {
			cl.c.keeper.forget(s)
		}
		return
	}
	if !cl.withdrawn(ctx, s, j.withdraw) {
		return
	}
	for len(j.release) > 0 {
		batch := j.release[:min(len(j.release), cleanMax)]
		j.release = j.release[len(batch):]
		if _, err := cl.insist(ctx, fsm.Release{Session: s.id, Acked: s.acked(), Grants: batch}); err != nil {
			return
		}
	}
}

// withdrawn withdraws requests, and those that the group had no room to remember a little later again: until then
// a late duplicate of their command could still be carried out. It answers false if nothing is left to clean up.
func (cl *cleaner) withdrawn(ctx context.Context, s *session, requests []uint64) bool {
	var refused []uint64
	most := cleanMax
	for len(requests) > 0 {
		batch := requests[:min(len(requests), most)]
		out, err := cl.insist(ctx, fsm.Withdraw{Session: s.id, Acked: s.acked(), Requests: batch})
		if err != nil {
			return false
		}
		full := out.Code == fsm.CodeTooManyRequests || out.Code == fsm.CodeTooManySessions
		if full && len(batch) > 1 {
			most = 1 // those that are over make room
			continue
		}
		requests = requests[len(batch):]
		if full {
			refused = append(refused, batch...)
			continue
		}
		for _, request := range batch {
			s.finish(request)
		}
		open, state := out.Code.Left()
		switch {
		case state == fsm.RequestSessionLost:
			cl.c.keeper.lose(s, ErrExpired)
			return false
		case open: // perhaps by a call that never heard so
			cl.c.keeper.opened(s, false)
		}
	}
	if len(refused) == 0 {
		cl.c.keeper.discard(s)
		return true
	}
	select {
	case <-time.After(cleanPause):
	case <-ctx.Done():
		return false
	}
	cl.add(s, func(j *chores) { j.withdraw = append(j.withdraw, refused...) })
	return true
}

func (cl *cleaner) insist(ctx context.Context, cmd fsm.Command) (fsm.Outcome, error) {
	out, _, err := cl.c.proposer.insist(ctx, fsm.Encode(cmd))
	return out, err
}
