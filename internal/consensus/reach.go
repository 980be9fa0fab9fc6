package consensus

import (
	"log/slog"
	"sync"
	"time"
)

const (
	reachPatience = 2 * time.Second // a replica that starts anew is not worth a line
	reachMax      = 64              // addresses out of reach that are told apart
)

// reach tells the log when a replica is out of reach for a while, once, and when it is back. The
// engine itself says nothing of it, or a line for every attempt.
type reach struct {
	log  *slog.Logger
	mu   sync.Mutex
	lost map[string]*outage
}

type outage struct {
	since time.Time
	told  bool
}

// failed notes that a message could not be sent.
func (r *reach) failed(addr string, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.lost[addr]
	if o == nil {
		if r.lost == nil || len(r.lost) >= reachMax {
			r.lost = make(map[string]*outage) // addresses that nobody has any more: the others come again
		}
		r.lost[addr] = &outage{since: now}
		return
	}
	if !o.told && now.Sub(o.since) >= reachPatience {
		o.told = true
		r.log.Warn("a replica is out of reach: retrying", "component", "raft", "addr", addr, "for", now.Sub(o.since), "error", err)
	}
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
		r.log.Info("a replica is in reach again", "component", "raft", "addr", addr, "after", now.Sub(o.since))
	}
}
