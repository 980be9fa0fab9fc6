package virtual_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// told is the log of a fleet.
type told struct{ testlog.Lines }

// by are the lines of a node that contain all of what.
func (l *told) by(n *sim.Node, what ...string) []string {
	return l.Of(append(what, "node="+n.Cluster().ID())...)
}

// wantOne fails unless a node has written one line that contains all of what.
func (l *told) wantOne(t *testing.T, n *sim.Node, what ...string) {
	t.Helper()
	if list := l.by(n, what...); len(list) != 1 {
		t.Errorf("node %d wrote %d lines with %q: %q", n.Index(), len(list), what, list)
	}
}

// wantNone fails if a node has written a line that contains all of what.
func (l *told) wantNone(t *testing.T, n *sim.Node, what ...string) {
	t.Helper()
	if list := l.by(n, what...); len(list) > 0 {
		t.Errorf("node %d wrote %q", n.Index(), list)
	}
}

const (
	illLine   = "this node is ill: its calls get no answer, and its leases end unless it recovers"
	wellLine  = "this node is well again"
	voterIll  = "a voter is ill: it is replaced after ReplaceAfter, if another node can vote"
	wellAgain = "a voter is well again"
)

// Before, it went on naming itself, as the heartbeats of the next raft leader counted as a majority that it
// heard. There were two raft leaders by what the nodes said, and it called the voters that were well ill.
func TestARaftLeaderWhoseDiskHangsNamesTheNextOneAndBlamesNobody(t *testing.T) {
	t.Parallel()
	log := &told{}
	sim.Run(t, sim.Options{Nodes: 3, Logger: log.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		old := s.RaftLeader()
		defer busy(follower(s))()
		time.Sleep(time.Second)
		old.HangDisk(true)
		time.Sleep(5 * time.Second)
		next := s.RaftLeader()
		wrong := make(map[string]bool)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range s.Nodes() {
				st := n.Cluster().Status()
				if st.RaftLeader != next.Cluster().ID() {
					wrong[fmt.Sprintf("node %d names %q as raft leader", n.Index(), st.RaftLeader)] = true
				}
				for _, v := range st.Voters {
					if v.Ill != "" && v.ID != old.Cluster().ID() {
						wrong[fmt.Sprintf("node %d calls %s ill", n.Index(), v.Name)] = true
					}
				}
			}
		}
		if len(wrong) > 0 {
			t.Error(wrong)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := next.Cluster().Acquire(ctx, "served", holdfast.WithTTL(time.Minute)); err != nil {
			t.Error(err)
		}
		old.HangDisk(false)
		time.Sleep(10 * time.Second)
		if st := old.Cluster().Status(); !st.Ready || st.Waits != "" {
			t.Errorf("on a disk that is well again: ready %v, and it waits for %q", st.Ready, st.Waits)
		}
		log.wantOne(t, old, "level=ERROR")
		log.wantOne(t, old, "level=ERROR", illLine, "the disk has not finished a write for ")
		log.wantOne(t, old, "level=WARN", wellLine)
		log.wantNone(t, old, voterIll)
		log.wantNone(t, old, "waiting before changing the membership")
		log.wantOne(t, next, voterIll, "voter=\""+old.Cluster().ID())
		log.wantOne(t, next, wellAgain, "voter=\""+old.Cluster().ID())
		if t.Failed() {
			t.Log(log.Of("level="))
		}
	})
}

// Before, the follower was Ready in 71 of 71 samples: it heard heartbeats, and nothing else. The raft leader
// hears it, as small packets pass, and calls it ill after a third of ReplaceAfter, once.
func TestAFollowerThatIsSentNothingLargeSaysSoOnceAndSoDoesTheRaftLeader(t *testing.T) {
	t.Parallel()
	log, w := &told{}, &watched{words: make(map[int][]string)}
	sim.Run(t, sim.Options{Nodes: 3, Logger: log.Logger(slog.LevelInfo), Config: w.config}, func(s *sim.Sim) {
		leader, cut := s.RaftLeader(), follower(s)
		large := func(max int) {
			s.Faults(leader.Index(), cut.Index(), transport.Faults{Large: max})
			s.Faults(cut.Index(), leader.Index(), transport.Faults{Large: max})
		}
		waits := func(d time.Duration) {
			t.Helper()
			if ready, samples, waits := polled(cut, d); ready > 0 || waits == "" {
				t.Errorf("Ready in %d of %d samples; it waits for %q", ready, samples, waits)
			}
		}
		about := "voter=\"" + cut.Cluster().ID()
		time.Sleep(10 * time.Second)
		defer busy(leader)()
		large(600)
		polled(cut, 5*time.Second) // it has two seconds to notice; a node that nobody asks anything, asks for nothing
		waits(4 * time.Second)
		log.wantNone(t, leader, voterIll)
		for _, v := range leader.Cluster().Status().Voters {
			const words = "it is heard, and has acknowledged nothing for "
			if sick := v.ID == cut.Cluster().ID(); sick != strings.HasPrefix(v.Ill, words) || sick != (v.Behind > 100) || v.Heard > time.Second {
				t.Errorf("the raft leader says of node %s: %+v", v.Name, v)
			}
		}
		waits(2500 * time.Millisecond)
		log.wantOne(t, leader, "level=WARN", voterIll, about, "it is heard, and has acknowledged nothing for 1")
		waits(10 * time.Second)
		if said := w.of(cut.Index()); len(said) == 0 {
			t.Error("it never called itself ill")
		}
		if ready, samples, waits := polled(leader, time.Second); ready != samples {
			t.Errorf("the raft leader was Ready in %d of %d samples; it waits for %q", ready, samples, waits)
		}
		log.wantOne(t, leader, voterIll)
		log.wantNone(t, leader, wellAgain)
		log.wantNone(t, cut, wellLine)
		large(0)
		time.Sleep(10 * time.Second)
		if ready, samples, waits := polled(cut, 5*time.Second); ready != samples || waits != "" {
			t.Errorf("after the end Ready in %d of %d samples; it waits for %q", ready, samples, waits)
		}
		log.wantOne(t, leader, "level=INFO", wellAgain, about)
		log.wantOne(t, cut, "level=ERROR")
		log.wantOne(t, cut, "level=ERROR", illLine, "no answer from the raft leader for 1 s")
		log.wantOne(t, cut, "level=WARN", wellLine)
		if t.Failed() {
			t.Log(log.Of("level="))
		}
	})
}

// No voter can commit: to step down more often would only add elections to that.
func TestARaftLeaderThatCommitsNothingStepsDownOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	log := &told{}
	sim.Run(t, sim.Options{Nodes: 3, Logger: log.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		time.Sleep(5 * time.Second)
		for _, n := range s.Nodes() {
			defer busy(n)()
		}
		s.FaultsEverywhere(transport.Faults{Large: 600})
		time.Sleep(30 * time.Second)
		all := 0
		for _, n := range s.Nodes() {
			times := len(log.by(n, "this raft leader commits nothing: it steps down"))
			if all += times; times > 3 {
				t.Errorf("node %d stepped down %d times in 30 s", n.Index(), times)
			}
		}
		if all == 0 {
			t.Error("none stepped down")
		}
		s.Heal()
		time.Sleep(15 * time.Second)
		for _, n := range s.Nodes() {
			if ready, samples, waits := polled(n, time.Second); ready != samples {
				t.Errorf("after the end node %d is Ready in %d of %d samples; it waits for %q", n.Index(), ready, samples, waits)
			}
		}
		if t.Failed() {
			t.Log(log.Of("level="))
		}
	})
}
