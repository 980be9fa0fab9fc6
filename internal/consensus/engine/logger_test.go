package engine

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/statemachine"
)

func TestLinesOfTheEngineReachTheReplicaThatTheyName(t *testing.T) {
	t.Parallel()
	r := newRouter()
	var logs [2]bytes.Buffer
	for i := range logs {
		debug := &slog.HandlerOptions{Level: slog.LevelDebug}
		r.groups[uint64(12300007+i)] = []*member{{log: slog.New(slog.NewTextHandler(&logs[i], debug))}}
	}
	l := r.make("raft")
	l.Infof("[f:1] %s became follower", "[00001:00008]")
	l.Debugf("[00001:00008]")
	l.Warningf("mutual TLS disabled, communication is insecure")
	if logs[0].Len()+logs[1].Len() > 0 {
		t.Errorf("chatter is logged: %s%s", &logs[0], &logs[1])
	}
	l.Warningf("%s is lagging", "[00001:00008]")
	l.Errorf("%s broke\nwith a stack", "[00001:00008]")
	text := logs[1].String()
	if logs[0].Len() > 0 || !strings.Contains(text, "DEBUG") || !strings.Contains(text, "WARN") {
		t.Errorf("lines of replica 8 went to 7: %q, to 8: %q", &logs[0], text)
	}
	if strings.Contains(text, "stack") {
		t.Errorf("stacks are logged: %s", text)
	}
}

// oneGroup is the logger of a package of the engine, and the log of the only group.
func oneGroup(pkg string) (logger.ILogger, *bytes.Buffer) {
	r, log := newRouter(), new(bytes.Buffer)
	r.groups[1] = []*member{{log: slog.New(slog.NewTextHandler(log, nil))}}
	return r.make(pkg), log
}

// Seen in a benchmark: a node that closed while it wrote a snapshot warned of it.
func TestASnapshotThatClosingStoppedIsNoWarning(t *testing.T) {
	t.Parallel()
	l, log := oneGroup("rsm")
	l.Errorf("%s snapshotter.Save failed %v", "[00001:00001]", statemachine.ErrSnapshotStopped)
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
	if l.Errorf("%s snapshotter.Save failed %v", "[00001:00001]", io.ErrShortWrite); log.Len() == 0 {
		t.Error("another failure is not logged")
	}
}

func TestEngineCannotFloodTheLog(t *testing.T) {
	t.Parallel()
	l, log := oneGroup("raft")
	began := time.Now()
	for range 1000 {
		l.Errorf("broke")
	}
	if n := strings.Count(log.String(), "broke"); n < linesPerSecond || n > linesPerSecond*(1+int(time.Since(began)/time.Second)) {
		t.Errorf("%d lines in %v", n, time.Since(began))
	}
}

func TestTheEngineOfAGoroutineIsToldAlsoWhenItsLogStoreTookTheLabel(t *testing.T) {
	t.Parallel()
	const replica = 4242
	ask := func(about string, want ...uint64) func() {
		return func() {
			if got := process.culprits(); !slices.Equal(got, want) {
				t.Errorf("%s: blamed %v, want %v", about, got, want)
			}
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		Labelled(replica, func() {
			all.Go(func() {
				all.Go(ask("a goroutine that one of the engine's started", replica))
				Unlabelled()
				ask("a goroutine of the engine without its label", replica)()
				_ = Guard(func() error { ask("a goroutine of ours in a call of the engine")(); return nil })
			})
			Unlabelled()
			ask("the one that starts the engine, without its label", replica)()
			_ = Guard(func() error { ask("the one that starts the engine, in a call of it", replica)(); return nil })
		})
	})
	all.Wait()
	_ = Guard(func() error { ask("somebody else, in a call of the engine")(); return nil })
	r := &router{groups: map[uint64][]*member{7: nil}}
	if got := r.culprits(); !slices.Equal(got, []uint64{7}) {
		t.Errorf("a goroutine that nothing is known of: blamed %v", got)
	}
}

// The directories of two groups were copies of one, and the later group had ended: its going took the name,
// and the Open of the first waited a minute for an engine that could not go on.
func TestAGroupIsFailedThoughALaterOneOfItsReplicaHasEnded(t *testing.T) {
	t.Parallel()
	const replica = 4343
	failed := make(chan error, 1)
	leave := Enter(replica, slog.New(slog.DiscardHandler), func(err error) { failed <- err })
	defer leave()
	Enter(replica, slog.New(slog.DiscardHandler), func(error) {})()
	go Labelled(replica, func() {
		l := &engineLogger{router: process, pkg: "raft"}
		l.Panicf("broken")
	})
	if err := <-failed; !errors.Is(err, ErrInvariant) {
		t.Error(err)
	}
}
