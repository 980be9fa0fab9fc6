package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	// ClientsMax bounds the clients of a replica; a further one is sent to another.
	ClientsMax = 1024
	// CallsMax bounds the calls of one client that are under way. So in the line of the replica's
	// admission few calls of others are ever before one of a client.
	CallsMax = 256
	// refusalsPeriod has three lines in the log about refused clients.
	refusalsPeriod = 10 * time.Second
)

// Config is what a Server is made with.
type Config struct {
	Cluster string      // the name
	Self    fsm.Process // of the replica
	Group   seam.Group  // the way of the replica's own callers
	Node    seam.Node   // for what a client asks beside that
	Peers   func() []string
	GroupID func() [16]byte // of the group that the node is of, also without a replica; zero: of none
	Well    func() bool     // the replica can serve: else its clients go to another
	Led     func() bool     // it hears a raft leader: else those that have been here for unledStay do
	Logger  *slog.Logger

	Complete func(context.Context) error // waits until the group can lose one of its voters

	Times *expiry.IndexTimes // kept here: when the replica has applied what, by Now, for clients that want to know
	Now   func() lease.Instant
}

// Server serves clients. Applied and Skipped are called in the order of the log.
type Server struct {
	cfg      Config
	workers  workers
	places   chan struct{} // one for each client
	refusals sparse.Lines

	mu      sync.Mutex // of clients and of what each was told; held while news are queued
	clients map[fsm.Process]*client
	watches watches
	at      uint64 // the last command
}

// New returns a server without clients.
func New(cfg Config) *Server {
	return &Server{
		cfg: cfg, workers: newWorkers(), places: make(chan struct{}, ClientsMax), clients: make(map[fsm.Process]*client), watches: newWatches(),
		refusals: sparse.Lines{Most: 3, Period: refusalsPeriod},
	}
}

// Serve serves the client at the other end of a connection until one of the two or ctx ends, and closes
// the connection. A client beyond ClientsMax is told so, and tries another replica.
func (s *Server) Serve(ctx context.Context, conn net.Conn) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
		s.serve(ctx, conn)
	default:
		s.turnAway(conn)
	}
}

// turnAway is for a client that finds no place.
func (s *Server) turnAway(conn net.Conn) {
	full := link.Refuse{Code: link.RefuseLater, Text: fmt.Sprintf("this replica has %d clients, as many as it serves", ClientsMax)}
	_ = conn.SetWriteDeadline(time.Now().Add(endTime))
	_, _ = conn.Write(link.AppendFrame(nil, link.KindRefuse, 0, full.Append(nil)))
	_ = conn.Close()
	s.refused(conn, fsm.Process{}, full)
}

// Close ends the goroutines that wait for calls. Serve is not called any more.
func (s *Server) Close() { s.workers.end() }

// Applied tells each client the events that concern its sessions, or a lock that it watches.
func (s *Server) Applied(events []fsm.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = events[len(events)-1].Index
	s.cfg.Times.Note(s.at, s.cfg.Now())
	if len(s.clients) == 0 {
		return
	}
	var concerned []*client
	for i := range events {
		e := &events[i]
		if c := s.clients[e.Session.Process()]; c != nil && news(e) && c.note(e) {
			concerned = append(concerned, c)
		}
		for c := range s.watches.of(e) {
			if c.note(e) {
				concerned = append(concerned, c)
			}
		}
	}
	for _, c := range concerned {
		c.tell()
	}
}

// news reports whether a client learns by an event what none of its outcomes says.
func news(e *fsm.Event) bool {
	switch e.Kind {
	case fsm.EventGranted:
		return e.Waited
	case fsm.EventWithdrawn, fsm.EventSessionEnded, fsm.EventForced, fsm.EventWanted:
		return true
	}
	return false
}

// Skipped says that the state came as a whole, up to a command: each client asks what is different.
func (s *Server) Skipped(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = last
	s.cfg.Times.Restore(last, s.cfg.Now())
	for _, c := range s.clients {
		c.skip(last)
	}
}

// GiveUp ends the connections of all clients: the replica is over, or its group is given up.
func (s *Server) GiveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.end(seam.ErrSuperseded)
	}
}

// Clients is how many there are.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// enter welcomes a client, which is told what is applied after the present state: the Welcome comes before
// all news. A former connection of the same process ends.
func (s *Server) enter(ctx context.Context, c *client) error {
	peers := s.cfg.Peers()
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := seam.Ask(ctx, s.cfg.Group, seam.Now, fsm.QueryGroup{})
	if err != nil {
		return err
	}
	welcome := link.Welcome{Group: state.Cluster, At: state.Commands, MaxTTL: cmp.Or(state.MaxTTL, fsm.TTLMax), Peers: peers}
	if err := c.out.Send(link.KindWelcome, 0, welcome.Append(nil)); err != nil {
		return err
	}
	if before := s.clients[c.process]; before != nil {
		before.end(fmt.Errorf("holdfast: the client has connected again"))
	}
	c.after = state.Commands
	s.clients[c.process] = c
	return nil
}

func (s *Server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c.process] == c {
		delete(s.clients, c.process)
	}
	for id := range c.watches {
		s.unwatch(c, id)
	}
}
