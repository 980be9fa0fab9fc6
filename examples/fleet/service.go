//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

// service is one process: the scheduler with a node of its own.
type service struct {
	name, dir string
	ttl       time.Duration
	out       sync.Mutex
}

// report is a line on the standard output of a service: what it tells the story-teller.
type report struct {
	Event string      `json:"event"` // ready, or a scheduler.Event's kind
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
		Logger:  crew.Logger(),
	})
	if err != nil {
		return err
	}
	defer crew.Leave(c) // also after SIGTERM, which ends ctx
	if err := announce(peers, c.Addr()); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	s.say(report{Event: "ready", Text: c.ID()})

	records, err := openLedger(s.dir)
	if err != nil {
		return err
	}
	defer records.close()
	err = scheduler.Service{Name: s.name, Ledger: records, Tell: func(e scheduler.Event) {
		s.say(report{Event: e.Kind, Token: e.Token, N: e.N, Text: e.Text})
	}}.Run(ctx, c)
	return ignoreEnd(ctx, err)
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
