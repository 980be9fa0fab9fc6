package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// relay passes signals on: to the command while one runs, else they end the waiting.
type relay struct {
	got    chan os.Signal
	done   chan struct{}
	cancel context.CancelFunc
	mu     sync.Mutex
	to     func(os.Signal) // nil: nothing runs
	ended  os.Signal       // that asked for the end of the command or of the waiting
}

// newRelay begins to receive signals. The context ends with one that asks for the end while no
// command runs.
func newRelay(ctx context.Context) (context.Context, *relay) {
	r := &relay{got: make(chan os.Signal, 16), done: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	for _, sig := range passedOn() {
		if !signal.Ignored(sig) { // as nohup leaves SIGHUP
			signal.Notify(r.got, sig)
		}
	}
	go r.listen()
	return ctx, r
}

func (r *relay) listen() {
	defer close(r.done)
	for sig := range r.got {
		r.deliver(sig)
	}
}

func (r *relay) deliver(sig os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ends := asksForEnd(sig)
	if ends && r.ended == nil {
		r.ended = sig
	}
	switch {
	case r.to != nil:
		r.to(sig)
	case ends:
		r.cancel()
	}
}

// passTo sends what follows to a command, or with nil to nobody. It reports whether the end was
// asked for before.
func (r *relay) passTo(to func(os.Signal)) (ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	if to == nil && r.ended != nil { // the command is over, and so is the waiting for another run of it
		r.cancel()
	}
	return r.ended != nil
}

// asked is the signal that asked for the end, nil for none.
func (r *relay) asked() os.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// cause is err, or the exit that a signal asked for.
func (r *relay) cause(err error) error {
	if sig, ok := r.asked().(syscall.Signal); ok {
		return &exit{codeSignal + int(sig), fmt.Errorf("ended by a signal (%v) before the command began", sig), ""}
	}
	return err
}

func (r *relay) close() {
	signal.Stop(r.got)
	close(r.got)
	<-r.done
	r.cancel()
}

func asksForEnd(sig os.Signal) bool {
	return sig == os.Interrupt || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}
