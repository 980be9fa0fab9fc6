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

// passTo starts a command, and sends it what follows. A signal that arrives while the command starts
// reaches it, too: it waits until the command can be signalled. So does the one that asked for the end
// before.
func (r *relay) passTo(start func() (signal func(os.Signal), err error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	to, err := start()
	if err != nil {
		return err
	}
	if r.to = to; r.ended != nil {
		to(r.ended)
	}
	return nil
}

// over says that the command is over. If its end was asked for, so is the waiting for another run of it.
func (r *relay) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to = nil; r.ended != nil {
		r.cancel()
	}
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
