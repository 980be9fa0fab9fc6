package client

import (
	"context"
	"log/slog"
	"time"
)

const (
	// steadyTime is the age at which a connection shows that its replica serves this node: a replica
	// that hears no raft leader sends a client away after three seconds, at its next ping.
	steadyTime = 5 * time.Second
	outageMin  = 10 * time.Second // without service, after which an outage is reported
	outagePoll = 500 * time.Millisecond
)

// LogNotServed writes that a client is served no more.
func LogNotServed(log *slog.Logger, since time.Time, reason string) {
	log.Error("no replica serves this client: it is granted no lock, and its leases end, until one does", "since", since.Round(0), "because", reason)
}

// LogServedAgain writes that it is again.
func LogServedAgain(log *slog.Logger, after time.Duration) {
	log.Warn("a replica serves this client again", "after", after.Round(time.Millisecond).String())
}

// outage finds out when a client is served no more, and when it is again.
type outage struct {
	served time.Time // when it was last
	told   bool
}

// look takes what is seen at a moment. lost says that the client was not served for outageMin, and
// back that it is again, after so long: each once.
func (o *outage) look(now time.Time, served bool) (lost, back bool, after time.Duration) {
	after = now.Sub(o.served)
	lost = !served && !o.told && after >= outageMin
	back = served && o.told
	if served {
		o.served = now
	}
	o.told = (o.told || lost) && !back
	return lost, back, after
}

// Served reports whether a replica has served this node for steadyTime without a pause.
func (r *Roamer) Served(now time.Time) bool {
	c, _ := r.group.now()
	return c != nil && now.Sub(c.began) >= steadyTime
}

// watchService reports on a client without a replica until ctx ends.
func (n *Node) watchService(ctx context.Context) {
	o := outage{served: time.Now()}
	ticker := time.NewTicker(outagePoll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		switch lost, back, after := o.look(now, n.Served(now)); {
		case lost:
			LogNotServed(n.log, o.served, n.Reason())
			n.cfg.Listener.Quorum(false, nil)
		case back:
			LogServedAgain(n.log, after)
			n.cfg.Listener.Quorum(true, nil)
		}
	}
}
