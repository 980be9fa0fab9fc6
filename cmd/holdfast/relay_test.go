package main

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A command says that it is there before its start has returned: a signal of that moment was dropped,
// and "holdfast run" waited for a command that nobody had told to end.
func TestASignalThatArrivesWhileTheCommandStartsReachesIt(t *testing.T) {
	ctx, r := newRelay(t.Context())
	defer r.close()
	heard := make(chan os.Signal, 2)
	err := r.passTo(func() (func(os.Signal), error) {
		r.got <- syscall.SIGUSR1
		r.got <- syscall.SIGTERM
		return func(sig os.Signal) { heard <- sig }, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []os.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
		if got := <-heard; got != want {
			t.Errorf("the command got %v, not %v", got, want)
		}
	}
	if ctx.Err() != nil {
		t.Error("the waiting ended while the command ran")
	}
	if r.over(); ctx.Err() == nil {
		t.Error("the waiting for another run goes on after SIGTERM")
	}
}

func TestACommandThatCannotStartGetsNoSignal(t *testing.T) {
	ctx, r := newRelay(t.Context())
	defer r.close()
	broken := errors.New("no such program")
	if err := r.passTo(func() (func(os.Signal), error) { return nil, broken }); err != broken {
		t.Error(err)
	}
	r.got <- syscall.SIGTERM
	<-ctx.Done() // nothing runs: the signal ends the waiting
}
