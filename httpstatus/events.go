package httpstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

const (
	streamTime  = 15 * time.Minute       // of a stream; the browser opens the next one by itself
	streamFlush = 250 * time.Millisecond // for which events are collected
	streamQuiet = 10 * time.Second       // after which a line keeps the connection open
	streamWrite = 10 * time.Second       // that a client may take to receive
	batchMax    = 200                    // events of one flush; further ones are counted
)

// batch is the events since the last flush, bounded: a browser draws no more, and a slow client
// must not cost memory.
type batch struct {
	mu     sync.Mutex
	events []view.Event
	missed int
	err    error // why the watch has ended
}

func (b *batch) add(e holdfast.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == batchMax {
		b.missed++
		return
	}
	b.events = append(b.events, view.OfEvent(e))
}

func (b *batch) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// take returns what has come, and begins anew.
func (b *batch) take() (events []view.Event, missed int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, missed, err = b.events, b.missed, b.err
	b.events, b.missed = nil, 0
	return events, missed, err
}

// stream sends the events of locks, and the state of the node when it changes.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": fmt.Sprintf("there are %d streams of events already", streamsMax)})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	query := r.URL.Query()
	news := &batch{}
	watch := h.c.Watch(ctx, cmp.Or(query.Get("name"), query.Get("prefix")))
	reading.Go(func() {
		for e, err := range watch {
			switch {
			case err != nil:
				news.end(err)
			case wanted(query, e):
				news.add(e)
			}
		}
	})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would collect events
	h.send(ctx, &sender{w: w, out: http.NewResponseController(w)}, news, h.closing(r))
}

// wanted reports whether an event is of the lock that was asked for, if one was.
func wanted(query url.Values, e holdfast.Event) bool {
	name := query.Get("name")
	return name == "" || name == e.Name || e.Kind == holdfast.EventResync
}

// send writes what news collects until the stream is over.
func (h *handler) send(ctx context.Context, s *sender, news *batch, closing <-chan struct{}) {
	tick := time.NewTicker(streamFlush)
	defer tick.Stop()
	told := ""
	for s.err == nil {
		if now := h.state(); now != told {
			s.event("state", 0, json.RawMessage(now))
			told = now
		}
		events, missed, err := news.take()
		for _, e := range events {
			s.event("lock", e.Index, e)
		}
		if missed > 0 {
			s.event("missed", 0, map[string]int{"events": missed})
		}
		if err != nil {
			s.event("end", 0, map[string]string{"error": err.Error()})
		}
		s.flush()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-closing:
			return
		case <-tick.C:
		}
	}
}

// state is what a page shows at its head.
func (h *handler) state() string {
	st := h.c.Status()
	text, _ := json.Marshal(map[string]any{"state": view.State(st), "raft_leader": st.RaftLeader, "term": st.Term, "waits": st.Waits})
	return string(text)
}

// sender writes server-sent events.
type sender struct {
	w     http.ResponseWriter
	out   *http.ResponseController
	err   error
	dirty bool
	at    time.Time // of the last flush
}

// event writes one event. JSON has no line breaks, so that a name cannot begin another one.
func (s *sender) event(kind string, id uint64, data any) {
	text, err := json.Marshal(data)
	if err != nil || s.err != nil {
		return
	}
	s.deadline()
	if id != 0 {
		_, s.err = fmt.Fprintf(s.w, "id: %d\n", id)
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, text)
	}
	s.dirty = true
}

func (s *sender) deadline() {
	_ = s.out.SetWriteDeadline(time.Now().Add(streamWrite)) // a recorder of a test has none
}

// flush sends what was written, or a comment when nothing was for long.
func (s *sender) flush() {
	if !s.dirty && time.Since(s.at) < streamQuiet || s.err != nil {
		return
	}
	s.deadline()
	if !s.dirty {
		_, s.err = fmt.Fprint(s.w, ": still here\n\n")
	}
	if s.err == nil {
		s.err = s.out.Flush()
	}
	s.dirty, s.at = false, time.Now()
}

// closing is closed when the server of a request begins to shut down: http.Server.Shutdown waits
// for streams otherwise.
func (h *handler) closing(r *http.Request) <-chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	stop, ok := h.stopping[server]
	if !ok {
		stop = make(chan struct{})
		h.stopping[server] = stop
		server.RegisterOnShutdown(sync.OnceFunc(func() { close(stop) }))
	}
	return stop
}
