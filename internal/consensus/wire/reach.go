package wire

import (
	"log/slog"
	"sync"
	"time"
)

const (
	reachPatience = 2 * time.Second // a replica that restarts is not worth a line
	reachMax      = 64              // unreachable addresses that are remembered
)

// reach logs once when a replica is unreachable for a while, and when it is reachable again. The
// engine logs nothing, or a line for each attempt.
type reach struct {
	log  *slog.Logger
	mu   sync.Mutex
	lost map[string]*outage
}

type outage struct {
	since time.Time
	told  bool
	cause error // of the last attempt
}

// failed notes that a message could not be sent.
func (r *reach) failed(addr string, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.lost[addr]
	if o == nil {
		if r.lost == nil || len(r.lost) >= reachMax {
			r.lost = make(map[string]*outage) // addresses that are no longer in use; the others fail again
		}
		r.lost[addr] = &outage{since: now, cause: err}
		return
	}
	o.cause = err
	if !o.told && now.Sub(o.since) >= reachPatience {
		o.told = true
		r.log.Warn("replica unreachable: retrying", "component", "raft", "addr", addr, "for", now.Sub(o.since).String(), "error", err)
	}
}

// cause is why the last message to an address could not be sent, nil if it could.
func (r *reach) cause(addr string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.lost[addr]; o != nil {
		return o.cause
	}
	return nil
}

// heard notes that a replica has answered.
func (r *reach) heard(addr string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.lost[addr]
	if o == nil {
		return
	}
	delete(r.lost, addr)
	if o.told {
		r.log.Info("replica reachable again", "component", "raft", "addr", addr, "after", now.Sub(o.since).String())
	}
}
