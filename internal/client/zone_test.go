package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
)

func TestAClientKnowsHowNearAReplicaIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own, other string
		want       int
	}{
		{"a", "a", 1}, {"a", "b", 0}, {"a", "", 0}, {"", "", 0}, {"", "a", 0}, {"a/h", "a", 1}, {"a", "a/h", 1}, {"a/h", "a/h", 2},
		{"a/h", "a/i", 1}, {"a/h", "b/h", 0}, {"/h", "/h", 2}, {"/h", "/i", 0}, {"/h", "a/h", 0},
	} {
		if got := nearness(c.own, c.other); got != c.want {
			t.Errorf("from %q to %q: %d, not %d", c.own, c.other, got, c.want)
		}
	}
}

// A near replica that refuses this node must not have it come and go, and one that is ill or away is
// no reason to move.
func TestAClientMovesToANearerReplicaOnceAMinute(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1e9, 0)
	fleet := func(change func(*seam.Fleet)) *Roamer {
		f := seam.Fleet{
			Members: []seam.Member{
				{Node: "1", Addr: "far:1", Zone: "a/x", State: member.Alive}, {Node: "2", Addr: "near:1", Zone: "b/y", State: member.Alive},
				{Node: "3", Addr: "alone:1", Zone: "b/z", State: member.Alive}, // without a replica
			},
			Voters: []seam.Replica{{Node: "1"}, {Node: "2"}},
		}
		change(&f)
		return &Roamer{cfg: Roaming{Zone: "b/z"}, fleet: f, group: newGroup(nil)}
	}
	n := fleet(func(*seam.Fleet) {})
	addrs := []string{"far:1", "other:1", "near:1"}
	if n.sort(addrs, begin); addrs[0] != "near:1" || addrs[1] != "far:1" {
		t.Errorf("the order is %v", addrs)
	}
	for _, step := range []struct {
		addr  string
		after time.Duration
		want  bool
	}{
		{"near:1", 0, false}, {"forwarded:1", 0, false}, {"far:1", 0, true}, {"far:1", time.Minute - 1, false}, {"far:1", time.Minute, true},
	} {
		if got := n.moves(step.addr, begin.Add(step.after)); got != step.want {
			t.Errorf("at %s after %v: %v", step.addr, step.after, got)
		}
	}
	// The process of the near replica has died, and gossip elsewhere takes it for alive.
	n = fleet(func(*seam.Fleet) {})
	n.leave("near:1", errGone, begin)
	if n.moves("far:1", begin.Add(time.Second)) || !n.moves("far:1", begin.Add(leftTime)) {
		t.Error("it moves to the replica that it has just lost, or never more")
	}
	n = fleet(func(*seam.Fleet) {})
	if n.group.streams <- struct{}{}; n.moves("far:1", begin) {
		t.Error("it moves while a backup is under way")
	}
	for name, change := range map[string]func(*seam.Fleet){
		"ill":       func(f *seam.Fleet) { f.Voters[1].Ill = "its disk hangs" },
		"away":      func(f *seam.Fleet) { f.Members[1].State = member.Suspect },
		"elsewhere": func(f *seam.Fleet) { f.Members[1].Zone = "c" },
	} {
		if fleet(change).moves("far:1", begin) {
			t.Errorf("it moves to a replica that is %s", name)
		}
	}
}

// A client of a fleet that rolls has left each replica a moment ago; one that was left long ago is like all others.
func TestReplicasThatServedThisNodeLatelyAreTriedLast(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1e9, 0)
	r := &Roamer{group: newGroup(nil)}
	for i, addr := range []string{"a:1", "b:1", "a:1", "c:1"} {
		r.leave(addr, errGone, begin.Add(time.Duration(i)*time.Second))
	}
	r.leave("e:1", errNearer, begin.Add(4*time.Second))
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{5 * time.Second, "[d:1 e:1 b:1 a:1 c:1]"}, {leftTime + time.Second, "[b:1 d:1 e:1 a:1 c:1]"}, {leftTime + time.Hour, "[a:1 b:1 c:1 d:1 e:1]"}} {
		addrs := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
		if r.sort(addrs, begin.Add(step.after)); fmt.Sprint(addrs) != step.want {
			t.Errorf("after %v: %v, not %s", step.after, addrs, step.want)
		}
	}
	for i := range 10 * leftMax {
		r.leave(fmt.Sprint("a:", i), errGone, begin)
	}
	if len(r.left) != leftMax {
		t.Errorf("%d addresses are kept", len(r.left))
	}
}
