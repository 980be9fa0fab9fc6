package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	// ClientsMax bounds the clients of a replica; a further one is sent to another.
	ClientsMax = 1024
	// CallsMax bounds the calls of one client that are under way. So in the line of the replica's
	// admission few calls of others are ever before one of a client.
	CallsMax = 256
)

// Config is what a Server is made with.
type Config struct {
	Cluster string      // the name
	Self    fsm.Process // of the replica
	Group   seam.Group  // the way of the replica's own callers
	Node    seam.Node   // for what a client asks beside that
	Peers   func() []string
	Well    func() bool // the replica can serve: else its clients go to another
	Led     func() bool // it hears a raft leader: else those that have been here for unledStay do
	Logger  *slog.Logger

	Complete func(context.Context) error // waits until the group can lose one of its voters

	Times *expiry.IndexTimes // kept here: when the replica has applied what, by Now, for clients that want to know
	Now   func() lease.Instant
}

// Server serves clients. Applied and Skipped are called in the order of the log.
type Server struct {
	cfg     Config
	workers workers

	mu      sync.Mutex // of clients and of what each was told; held while news are queued
	clients map[fsm.Process]*client
	watches watches
	at      uint64 // the last command
}

// New returns a server without clients.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, workers: newWorkers(), clients: make(map[fsm.Process]*client), watches: newWatches()}
}

// Run accepts clients until ctx ends or the listener fails, and returns when none is left. It closes
// the listener. It is called once.
func (s *Server) Run(ctx context.Context, listener net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer s.workers.end()
	defer all.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	places := make(chan struct{}, ClientsMax)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		select {
		case places <- struct{}{}:
			all.Go(func() {
				defer func() { <-places }()
				s.serve(ctx, conn)
			})
		default: // the client tries another replica
			_ = conn.Close()
		}
	}
}

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

// enter makes a client one that is told what is applied after the present state, and returns the
// number of the last command in it. A former connection of the same process ends.
func (s *Server) enter(ctx context.Context, c *client) (state fsm.GroupState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err = seam.Ask(ctx, s.cfg.Group, seam.Now, fsm.QueryGroup{})
	if err != nil {
		return state, err
	}
	if before := s.clients[c.process]; before != nil {
		before.end(fmt.Errorf("holdfast: the client has connected again"))
	}
	c.after = state.Commands
	s.clients[c.process] = c
	return state, nil
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
