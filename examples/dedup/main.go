//go:build unix

// Command dedup shows an HTTP service that gets each webhook several times and handles it once.
// Three processes serve; the program delivers 60 webhooks, each four times, to whichever process,
// and again where it gets no good answer; and it kills one process in the middle. It exits with 0
// only if every webhook was handled once: only those that the killed process had in its hands may
// have been handled a second time.
//
//	go run ./examples/dedup
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	webhooks   = 60
	deliveries = 4
	inHand     = 12  // deliveries at a time
	idMax      = 100 // bytes
	patience   = 30 * time.Second
	answerIn   = 20 * time.Second // a sender gives up, too; twice the TTL, the longest wait for a killed process
	ttl        = 10 * time.Second // a lease of a process that lives outlasts the election after the kill, on a slow disk as well
)

func main() { crew.Main("dedup", serve, show) }

// serve is one process of the service.
func serve(ctx context.Context, name, dir string) error {
	ctx, c, err := crew.Join(ctx, name, dir, func(cfg *holdfast.Config) { cfg.TTL = ttl })
	if err != nil {
		return err
	}
	defer crew.Leave(c)
	marks, err := fence.OpenFile(filepath.Join(dir, "marks"))
	if err != nil {
		return err
	}
	defer marks.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	journal := &journal{marks: marks, path: filepath.Join(dir, "handled"), name: name}
	server := &http.Server{Handler: webhook(c, journal), ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	crew.Tell(crew.Report{Event: "serves", Text: listener.Addr().String()})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// webhook handles each id once. 200 means that it was handled, here or elsewhere, now or before. In an
// outage the sender has its 503 in time, and delivers again. 400 means that it need not: no delivery of
// this id can be handled.
func webhook(c *holdfast.Cluster, log *journal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := io.ReadAll(io.LimitReader(r.Body, idMax+1)) // one that is cut off would be another's
		if err == nil && len(id) > idMax {
			err = fmt.Errorf("the id is longer than %d bytes", idMax)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerIn)
		defer cancel()
		result, err := c.Once(ctx, "webhook/"+string(id), func(ctx context.Context, l *holdfast.Lease) error {
			return log.handle(ctx, string(id), l.Token())
		}, holdfast.WithWait(), holdfast.WithKeepFor(72*time.Hour))
		switch {
		case errors.Is(err, holdfast.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !result.Finished:
			http.Error(w, "not finished", http.StatusServiceUnavailable)
		}
	}
}

// journal is the file that all processes write what they have handled into. Webhooks are handled side
// by side, so each needs a mark of its own. A mark in a file stays forever, and each new one writes
// the whole file: it is for the sixty of this story. In a service the row of the webhook has the mark
// (fence.NewRows), and goes with it.
type journal struct {
	marks *fence.File // the highest token that each webhook was written with
	path  string
	name  string
}

// handle is what must not happen twice. A process that was stopped here for longer than its lease
// lives, while another handled the webhook, is refused by its token.
func (j *journal) handle(ctx context.Context, id string, token holdfast.Token) error {
	time.Sleep(10 * time.Millisecond) // it is some work
	return j.marks.Do(ctx, id, token, func() error {
		f, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = fmt.Fprintf(f, "%s %s\n", id, j.name)
		return err
	})
}

// story is what the program knows of the processes.
type story struct {
	*crew.Crew
	mu     sync.Mutex
	addrs  map[string]string
	killed string
}

func show(ctx context.Context) error {
	return crew.Show("dedup", func(c *crew.Crew) error { return (&story{Crew: c, addrs: make(map[string]string)}).tell(ctx) })
}

// tell plays the story and checks it.
func (s *story) tell(ctx context.Context) error {
	s.Say("three processes start")
	if err := s.Start("amber", "birch", "cedar"); err != nil {
		return err
	}
	for len(s.addrs) < 3 {
		r, err := s.Next(ctx, patience)
		if err != nil {
			return err
		}
		s.addrs[r.From] = r.Text
		s.Say("%s serves at %s", r.From, r.Text)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	delivered, err := s.deliverAll(ctx)
	if err != nil {
		return err
	}
	s.Say("%d webhooks were delivered %d times each, in %d requests", webhooks, deliveries, delivered)
	return s.check()
}

// deliverAll delivers every webhook, and kills a process when a third of them is through.
func (s *story) deliverAll(ctx context.Context) (requests int, err error) {
	var all sync.WaitGroup
	var first error
	room := make(chan struct{}, inHand)
	for n := range webhooks * deliveries {
		if n == webhooks*deliveries/3 {
			s.mu.Lock()
			s.killed = "birch"
			s.mu.Unlock()
			s.Kill(s.killed)
			s.Say("%s is killed", s.killed)
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			tries, err := s.deliver(ctx, fmt.Sprintf("%03d", n/deliveries))
			s.mu.Lock()
			defer s.mu.Unlock()
			requests += tries
			first = errors.Join(first, err)
		})
	}
	all.Wait()
	return requests, first
}

// deliver posts a webhook until it is answered 200.
func (s *story) deliver(ctx context.Context, id string) (tries int, err error) {
	for tries = 1; ctx.Err() == nil; tries++ {
		s.mu.Lock()
		var addrs []string
		for name, addr := range s.addrs {
			if name != s.killed || rand.IntN(10) == 0 { // the sender does not know at once
				addrs = append(addrs, addr)
			}
		}
		s.mu.Unlock()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addrs[rand.IntN(len(addrs))], bytes.NewBufferString(id))
		if err != nil {
			return tries, err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return tries, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return tries, fmt.Errorf("webhook %s was not delivered: %w", id, ctx.Err())
}

func (s *story) check() error {
	s.StopAll()
	text, err := os.ReadFile(filepath.Join(s.Dir, "handled"))
	if err != nil {
		return err
	}
	handled := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		handled[id] = append(handled[id], name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	twice := 0
	for n := range webhooks {
		id := fmt.Sprintf("%03d", n)
		by := handled[id]
		switch {
		case len(by) == 0:
			return fmt.Errorf("webhook %s was not handled", id)
		case len(by) == 2 && by[0] == s.killed:
			twice++ // it was killed after the work and before the group knew
		case len(by) > 1:
			return fmt.Errorf("webhook %s was handled by %v", id, by)
		}
	}
	if twice > inHand {
		return fmt.Errorf("%d webhooks were handled twice: more than one process can have had in its hands", twice)
	}
	fmt.Printf("\n%d webhooks were handled, %d of them twice because a process was killed with them in its hands\n", len(handled), twice)
	return nil
}
