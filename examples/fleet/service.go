//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	lockName  = "scheduler/leader"
	tickEvery = 100 * time.Millisecond
)

// service is one process of the scheduler. It embeds holdfast and ticks while it holds the lock.
type service struct {
	name, dir string
	ttl       time.Duration
	out       sync.Mutex
}

// report is a line on the standard output of a service: what it tells the story-teller.
type report struct {
	Event string      `json:"event"` // ready, leading, tick, lost, rejected, accepted
	Token fence.Token `json:"token,omitempty"`
	N     int         `json:"n,omitempty"`
	Text  string      `json:"text,omitempty"`
}

func (s *service) say(r report) {
	s.out.Lock()
	defer s.out.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

// run is the life of the process: until its standard input ends, which happens also when the
// story-teller dies.
func (s *service) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	peers := filepath.Join(s.dir, "peers")
	c, err := holdfast.Open(ctx, holdfast.Config{
		Cluster: "fleet",
		Name:    s.name,
		DataDir: filepath.Join(s.dir, s.name),
		Join:    []string{"file+" + peers},
		TTL:     s.ttl,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := announce(peers, c.Addr()); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	s.say(report{Event: "ready", Text: c.ID()})

	book, err := openLedger(s.dir)
	if err != nil {
		return err
	}
	defer book.close()
	for ctx.Err() == nil {
		if err := s.lead(ctx, c, book); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	return nil
}

// lead waits for the lock and ticks for as long as it is held.
func (s *service) lead(ctx context.Context, c *holdfast.Cluster, book *ledger) error {
	lease, err := c.Acquire(ctx, lockName, holdfast.WithLabel("tick every "+tickEvery.String()))
	if err != nil {
		return err
	}
	defer lease.Release(context.WithoutCancel(ctx))
	s.say(report{Event: "leading", Token: lease.Token()})

	for n := 1; ; n++ {
		if !lease.Valid() {
			return s.lost(ctx, lease, book)
		}
		if err := book.append(ctx, tick{lease.Token(), s.name, n}); errors.Is(err, fence.ErrStale) {
			return s.lost(ctx, lease, book)
		} else if err != nil {
			return err
		}
		s.say(report{Event: "tick", Token: lease.Token(), N: n})
		select {
		case <-time.After(tickEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// lost is what a careless service does after the loss of its lease: it writes once more. The guard
// of the resource is what stops it.
func (s *service) lost(ctx context.Context, lease *holdfast.Lease, book *ledger) error {
	s.say(report{Event: "lost", Token: lease.Token(), Text: fmt.Sprint(lease.Err())})
	err := book.append(ctx, tick{lease.Token(), s.name, 0})
	switch {
	case errors.Is(err, fence.ErrStale):
		s.say(report{Event: "rejected", Token: lease.Token(), Text: err.Error()})
		return nil
	case err == nil:
		s.say(report{Event: "accepted", Token: lease.Token()})
	}
	return err
}

// announce adds an address to the file that all processes join through.
func announce(path, addr string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, addr); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
