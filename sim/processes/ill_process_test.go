//go:build unix

package processes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
	"github.com/holdfast-go/holdfast/transport"
)

// The tests of this file are an operator's bad days, in real processes: what each process says of itself
// and of the others. A frozen file system is in frozen_linux_test.go.

// says waits until a process's Status is as it should be.
func (p *proc) says(what string, ok func(status) bool) {
	p.t.Helper()
	var last status
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s says last: %+v", p.cfg.Name, last)
		}
	}()
	testkit.Polled(p.t, p.cfg.Name+" that says "+what, func() bool {
		last = p.must(order{Op: "status"}).Status
		return ok(last)
	})
}

func (p *proc) saysReady() {
	p.t.Helper()
	p.says("that it is ready", func(s status) bool { return s.Ready && s.Waits == "" })
}

// stays looks at a process's Status for a while, and wants it to be the same in all samples.
func (p *proc) stays(what string, d time.Duration, ok func(status) bool) {
	p.t.Helper()
	if s, stays := p.keeps(d, ok); !stays {
		p.t.Fatalf("%s is not %s: %+v", p.cfg.Name, what, s)
	}
}

// keeps is stays as a question: the last sample, and whether all were as they should be.
func (p *proc) keeps(d time.Duration, ok func(status) bool) (s status, stays bool) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // real time: it may change its mind meanwhile
		if s = p.must(order{Op: "status"}).Status; !ok(s) {
			return s, false
		}
	}
	return s, true
}

// byRole are the process of the raft leader and the two others.
func byRole(t *testing.T, p []*proc) (leader *proc, others []*proc) {
	t.Helper()
	p[0].says("who leads", func(s status) bool {
		others = slices.DeleteFunc(slices.Clone(p), func(q *proc) bool {
			if q.must(order{Op: "status"}).Node == s.RaftLeader {
				leader = q
			}
			return leader == q
		})
		return leader != nil
	})
	return leader, others
}

// wired are processes that reach each other through a relay.
func wired(t *testing.T, n int) (*relay.Relay, []*proc) {
	t.Helper()
	r, err := relay.New(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	next := 0
	list := begun(t, n, func(cfg *processConfig) {
		i := next
		next++
		cfg.Advertise, cfg.Join, cfg.Routes = relay.Advertised(i), nil, make(map[string]relay.Route)
		for j := range n {
			if j != i {
				cfg.Join = append(cfg.Join, relay.Advertised(j))
				cfg.Routes[relay.Advertised(j)] = r.Route(i, j)
			}
		}
	})
	for i, p := range list {
		r.Serve(i, p.must(order{Op: "status"}).Listens)
	}
	for _, p := range list {
		p.ready()
	}
	return r, list
}

// worsen sets the faults of both directions between two processes.
func worsen(r *relay.Relay, list []*proc, a, b *proc, f transport.Faults) {
	i, j := slices.Index(list, a), slices.Index(list, b)
	r.Set(i, j, f)
	r.Set(j, i, f)
}

// Before, a follower that was sent no packet above 600 bytes was Ready in 71 of 71 samples, and one with a
// cut link to the raft leader said that the group had none, while the group served.
func TestAProcessWithABadLinkToTheRaftLeaderSaysSoAndTheOthersServe(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]link{
		"nothing large passes": {transport.Faults{Large: 600}, []string{"it is heard, and has acknowledged nothing for ", "not heard for "}},
		"nothing passes":       {transport.Faults{Cut: true}, []string{"not heard for "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, list := wired(t, 3)
			for round := 1; !badLink(t, r, list, bad); round++ {
				if round == 5 {
					t.Fatal("in no round the raft leader stayed in office")
				}
			}
			for _, p := range list {
				p.saysReady()
				p.must(order{Op: "turn", Name: "of all", TTL: time.Minute})
			}
		})
	}
}

// sees is what a process knows against a voter.
func (s status) sees(node string) string {
	for _, v := range s.Sights {
		if v.ID == node {
			return v.Ill
		}
	}
	return ""
}

// link is one that is bad.
type link struct {
	transport.Faults
	follower []string // what the raft leader may say of the follower: how that begins
}

// ownWords is how the follower says what keeps it from serving: what it can know itself, and not that the
// group has no majority.
func ownWords() []string {
	return []string{"no answer from the raft leader for ", "no answer from any raft leader for ", "this node hears no raft leader"}
}

func beginsWith(words []string, text string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(text, w) })
}

// badLink worsens the link between the raft leader and another process for a while, and says whether that
// has shown anything: on a busy machine the voters may elect another leader, whose link is good.
func badLink(t *testing.T, r *relay.Relay, list []*proc, bad link) (shown bool) {
	t.Helper()
	leader, others := byRole(t, list)
	cut, third := others[0], others[1]
	office := leader.must(order{Op: "status"}).Status
	moved := func() bool {
		now := third.must(order{Op: "status"}).Status
		return now.Term != office.Term || now.RaftLeader != office.RaftLeader
	}
	// says is proc.says, and false if the leader went before.
	says := func(p *proc, what string, ok func(status) bool) bool {
		t.Helper()
		gone := false
		p.says(what, func(s status) bool {
			gone = !ok(s) && moved()
			return gone || ok(s)
		})
		return !gone
	}
	ctx, cancel := context.WithCancel(t.Context())
	leader.must(order{Op: "acquire", Name: "written", TTL: time.Hour})
	writes := make(chan string, 1)
	go func() { // each makes an entry that is large
		said := ""
		for ctx.Err() == nil {
			if a := <-leader.begin(order{Op: "set", Name: "written", Value: make([]byte, 2000)}); a.Err != "" {
				said = a.Err
			}
		}
		writes <- said
	}()
	defer func() {
		stayed := !moved()
		cancel()
		r.Calm()
		if said := <-writes; said != "" && bad.Cut && stayed {
			t.Errorf("a write of the raft leader's: %s", said)
		}
		shown = shown && stayed
		leader.must(order{Op: "release", Name: "written"})
	}()

	worsen(r, list, leader, cut, bad.Faults)
	waits := func(s status) bool { return !s.Ready && beginsWith(ownWords(), s.Waits) }
	if !says(cut, "why it does not serve", waits) {
		return false
	}
	if s, stays := cut.keeps(5*time.Second, waits); !stays {
		if moved() {
			return false
		}
		t.Fatalf("%s serves through a bad link: %+v", cut.cfg.Name, s)
	}
	node := cut.must(order{Op: "status"}).Node
	if !says(leader, "who is ill", func(s status) bool { return s.Ready && beginsWith(bad.follower, s.sees(node)) }) {
		return false
	}
	if bad.Cut && !says(cut, "when it last heard the raft leader", func(s status) bool { return strings.HasPrefix(s.sees(office.RaftLeader), "heard ") }) {
		return false
	}
	third.must(order{Op: "turn", Name: "of the others", TTL: time.Minute})
	third.saysReady()
	return true
}

// Before, all three waited forever: "3 of the 3 nodes that Bootstrap waits for have met", and nobody named
// the third, or its address.
func TestAProcessThatAdvertisesWhereNobodyIsIsNamedByAll(t *testing.T) {
	t.Parallel()
	nowhere, err := process.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	list := begun(t, 3, func(cfg *processConfig) {
		if n++; n == 3 {
			cfg.Advertise = nowhere[0]
		}
	})
	for _, p := range list[:2] {
		p.says("who is not where it says it is", func(s status) bool {
			return !s.Ready && strings.Contains(s.Waits, "p2 says that it is at "+nowhere[0]+": ") && strings.Contains(s.Waits, "refused")
		})
	}
	list[2].says("that nobody reaches it", func(s status) bool {
		return !s.Ready && strings.Contains(s.Waits, "the others cannot reach this node at "+nowhere[0]+", say p0, p1")
	})
	list[2].kill()
	list[2].cfg.Advertise = ""
	list[2].start()
	for _, p := range list {
		p.ready()
		p.must(order{Op: "turn", Name: "lock", TTL: time.Minute})
	}
}

// Before, docs/operations.md sent the operator of a StatefulSet from three to one by Close: the second
// Close ended service.
func TestThreeProcessesBecomeOneByLeave(t *testing.T) {
	t.Parallel()
	list := procs(t, 3)
	kept := list[0].must(order{Op: "acquire", Name: "kept", TTL: time.Hour})
	list[0].must(order{Op: "set", Name: "kept", Value: []byte("v")})
	for left := 2; left > 0; left-- {
		leaves := list[left]
		leaves.must(order{Op: "leave", Timeout: 30 * time.Second})
		if err := leaves.Stop(testkit.CloseMax); err != nil {
			t.Error(err)
		}
		for _, p := range list[:left] {
			p.says(fmt.Sprintf("that there are %d voters", left), func(s status) bool { return s.Ready && len(s.Voters) == left })
			p.must(order{Op: "turn", Name: "lock", TTL: time.Minute})
		}
	}
	list[0].must(order{Op: "verify", Name: "kept", Token: kept.Token})
	list[0].kill()
	list[0].start()
	list[0].ready()
	if info := list[0].must(order{Op: "inspect", Name: "kept"}).Info; string(info.Value) != "v" || info.LastToken != kept.Token {
		t.Errorf("the last of three has %+v, its token was %d", info, kept.Token)
	}
}

// Before, a fleet whose name was gone from the DNS stayed down when all its processes had started again:
// no address was on their disks.
func TestAFleetStartsAgainFromItsDisksThoughItsJoinLeadsNowhere(t *testing.T) {
	t.Parallel()
	for name, join := range map[string]func(dir string) string{
		"the file is gone": func(dir string) string { return "file+" + filepath.Join(dir, "no such file") },
		"the name is gone": func(string) string { return "dns+gone.invalid:7643" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs, err := process.FreeAddrs(3)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			list := procs(t, 3, func(cfg *processConfig) { cfg.Bind, n = addrs[n], n+1 })
			kept := list[0].must(order{Op: "acquire", Name: "kept", TTL: time.Hour})
			for _, p := range list { // where another is, at least: the disk has the next within a minute
				testkit.Polled(t, "an address on the disk of "+p.cfg.Name, func() bool {
					text, err := os.ReadFile(filepath.Join(p.cfg.DataDir, "peers.json"))
					return err == nil && strings.Contains(string(text), "127.0.0.1")
				})
			}
			for _, p := range list {
				p.kill()
			}
			for _, p := range list {
				p.cfg.Join = []string{join(t.TempDir())}
				p.start()
			}
			for _, p := range list {
				p.ready()
			}
			if a := list[1].must(order{Op: "acquire", Name: "new", TTL: time.Minute}); a.Token <= kept.Token {
				t.Errorf("token %d after %d", a.Token, kept.Token)
			}
		})
	}
}
