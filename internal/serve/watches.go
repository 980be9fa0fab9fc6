package serve

import (
	"iter"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/link"
)

// watched is what a watch is of: the lock of a name, or all locks whose names begin with it.
type watched struct {
	name  string
	exact bool
}

// watches are those of all clients. An event is looked up once by its name, and once for each length
// that a prefix has: it costs nothing by the count of watches that do not concern it.
type watches struct {
	clients map[watched]map[*client]int // and how many watches of it a client has
	lengths map[int]int                 // of prefixes, and how many have it
}

func newWatches() watches {
	return watches{clients: make(map[watched]map[*client]int), lengths: make(map[int]int)}
}

// of yields the clients that watch the lock of an event, some perhaps several times.
func (w *watches) of(e *fsm.Event) iter.Seq[*client] {
	return func(yield func(*client) bool) {
		if len(w.clients) == 0 || !feed.Watched(e) {
			return
		}
		for c := range w.clients[watched{e.Name, true}] {
			if !yield(c) {
				return
			}
		}
		for n := range w.lengths {
			if n > len(e.Name) || !feed.OfPrefix(e, e.Name[:n]) {
				continue
			}
			for c := range w.clients[watched{e.Name[:n], false}] {
				if !yield(c) {
					return
				}
			}
		}
	}
}

func (w *watches) add(what watched, c *client) {
	of := w.clients[what]
	if of == nil {
		of = make(map[*client]int)
		w.clients[what] = of
		if !what.exact {
			w.lengths[len(what.name)]++
		}
	}
	of[c]++
}

func (w *watches) remove(what watched, c *client) {
	of := w.clients[what]
	if of[c]--; of[c] == 0 {
		delete(of, c)
	}
	if len(of) > 0 {
		return
	}
	delete(w.clients, what)
	if what.exact {
		return
	}
	if n := len(what.name); w.lengths[n] > 1 {
		w.lengths[n]--
	} else {
		delete(w.lengths, n)
	}
}

// watch tells a client of what is applied from now on to the locks of a watch.
func (s *Server) watch(c *client, m link.Watch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := c.watches[m.ID]; twice {
		return fault("a second watch of number %d", m.ID)
	}
	if len(c.watches) >= feed.WatchesMax {
		return fault("more than %d watches", feed.WatchesMax)
	}
	c.watches[m.ID] = watched{m.Name, m.Exact}
	s.watches.add(c.watches[m.ID], c)
	return nil
}

// unwatch ends a watch, if there is one. The caller holds s.mu.
func (s *Server) unwatch(c *client, id uint64) {
	if what, there := c.watches[id]; there {
		delete(c.watches, id)
		s.watches.remove(what, c)
	}
}
