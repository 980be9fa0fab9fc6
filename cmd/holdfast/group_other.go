//go:build !unix

package main

import (
	"os"
	"os/exec"
	"time"
)

// group is a command. Where there are no process groups it alone is ended, and only by us: it
// outlives a holdfast that is killed.
type group struct {
	process *os.Process
	done    chan struct{} // closed when the command has ended
}

func passedOn() []os.Signal { return []os.Signal{os.Interrupt} }

func startGroup(cmd *exec.Cmd, _ time.Duration) (*group, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &group{cmd.Process, make(chan struct{})}
	go func() {
		defer close(g.done)
		_ = endOf(cmd)
	}()
	return g, nil
}

func (g *group) signal(sig os.Signal) { _ = g.process.Signal(sig) }

// end kills the command, as nothing can ask it to end.
func (g *group) end(time.Duration) bool {
	_ = g.process.Kill()
	<-g.done
	return true
}

func (g *group) clear(time.Duration) {}

func heedNoSignal() {}

func endOwnGroup(time.Duration) {}
