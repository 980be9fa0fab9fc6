//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the process group of a command. Its leader is the guard, a process of this program: it
// ends the group when we are gone, however we have ended, and while it lives the group's number is
// nobody else's. A command may leave it: an interactive shell does, and setsid(1).
type group struct {
	id       int
	command  *os.Process
	guard    *exec.Cmd
	lifeline io.WriteCloser // its end tells the guard that we are gone
	terminal bool           // the command has been given ours
	done     chan struct{}  // closed when the command has ended
}

// passedOn are the signals that a command gets from us.
func passedOn() []os.Signal {
	return []os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}
}

// startGroup starts a command in a group of its own.
func startGroup(cmd *exec.Cmd, grace time.Duration) (g *group, err error) {
	adopt()
	g = &group{done: make(chan struct{})}
	if err := g.startGuard(grace); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.id}
	if foreground() {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty, g.terminal = true, 0, true
	}
	if err := cmd.Start(); err != nil {
		g.takeBack() // a command that could not be executed was given the terminal before
		g.dismiss()
		return nil, err
	}
	g.command = cmd.Process
	go func() {
		defer close(g.done)
		_ = endOf(cmd)
	}()
	go g.waitForOrphans(cmd.Process.Pid)
	return g, nil
}

// foreground reports whether standard input is a terminal whose foreground is ours to give away: in a
// pipeline the commands behind us, as less(1), are in the foreground with us, and would stop.
func foreground() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	var out unix.Stat_t
	return err == nil && group == unix.Getpgrp() && (unix.Fstat(1, &out) != nil || out.Mode&unix.S_IFMT != unix.S_IFIFO)
}

// waitForOrphans waits for the orphans that the command leaves while it runs: a scheduler that starts
// its jobs in the background would fill the table of processes with those that have ended.
func (g *group) waitForOrphans(command int) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		reap(command, g.id)
		select {
		case <-ended:
		case <-g.done:
			return
		}
	}
}

// startGuard starts the guard, and waits until no signal but SIGKILL can end it.
func (g *group) startGuard(grace time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g.guard = exec.Command(self, guardName, grace.String())
	g.guard.Env = []string{}
	g.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready, err := g.guard.StdoutPipe()
	if err == nil {
		g.lifeline, err = g.guard.StdinPipe()
	}
	if err == nil {
		err = g.guard.Start()
	}
	if err != nil {
		return err
	}
	g.id = g.guard.Process.Pid
	if _, err := io.ReadFull(ready, make([]byte, len(guardReady))); err != nil {
		g.dismiss()
		return err
	}
	return nil
}

// signal sends a signal to all of the group, and to a command that has left it, with the group that it
// leads by now. The guard heeds none.
func (g *group) signal(sig os.Signal) {
	_ = unix.Kill(-g.id, sig.(syscall.Signal))
	if g.ended() { // its number may be another process' by now
		return
	}
	id, err := unix.Getpgid(g.command.Pid)
	switch {
	case err != nil || id == g.id:
	case id == g.command.Pid:
		_ = unix.Kill(-id, sig.(syscall.Signal))
	default:
		_ = g.command.Signal(sig)
	}
}

func (g *group) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// end ends the command: SIGTERM, and SIGKILL after grace. It reports whether the command has ended: one
// of another user's rights, as of sudo(8), hears no signal of ours.
func (g *group) end(grace time.Duration) bool {
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT) // one that is stopped cannot end
	select {
	case <-g.done:
		return true
	case <-time.After(grace):
	}
	g.signal(syscall.SIGKILL)
	select {
	case <-g.done:
		return true
	case <-time.After(grace):
		return false
	}
}

// clear ends what the command has left behind in its group.
func (g *group) clear(grace time.Duration) {
	g.takeBack()
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
	g.dismiss()
	for deadline := time.Now().Add(grace); g.left(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.signal(syscall.SIGKILL)
			return
		}
	}
}

// takeBack takes the terminal back, which only a process that ignores SIGTTOU may do from behind.
func (g *group) takeBack() {
	if g.terminal {
		signal.Ignore(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// left reports whether the group has a process, after waiting for those that have ended.
func (g *group) left() bool {
	for pid := 1; pid > 0; {
		pid, _ = unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
	}
	return unix.Kill(-g.id, 0) == nil
}

// dismiss ends the guard, and nothing else.
func (g *group) dismiss() {
	_, _ = io.WriteString(g.lifeline, guardDismissed)
	_ = g.lifeline.Close()
	_ = endOf(g.guard)
}
