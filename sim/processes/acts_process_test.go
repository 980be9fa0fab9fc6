//go:build unix

package processes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// givesUpSoon is Config.ReplaceAfter of fleets in which processes die for a test.
const givesUpSoon = 2 * time.Second

// What TestOrdinaryActsAtEverySecondLoseNothing has at every second, as real processes at three
// points of each act.
func TestOrdinaryActsOfRealProcessesLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	for _, act := range []struct {
		name   string
		nodes  int
		voters int
		points [3]time.Duration
		do     func(f *processFleet, at time.Duration)
	}{
		{"a replacement dies", 3, 3, [3]time.Duration{500 * ms, 2 * s, 2400 * ms}, (*processFleet).replacementDies},
		{"machines are made anew one by one", 3, 3, [3]time.Duration{0, 300 * ms, 2200 * ms}, (*processFleet).madeAnew},
		{"one leaves after another died", 4, 3, [3]time.Duration{100 * ms, 1 * s, 2100 * ms}, (*processFleet).leavesAfterADeath},
		{"several leave", 6, 3, [3]time.Duration{0, 20 * ms, 200 * ms}, (*processFleet).severalLeave},
		{"all leave", 3, 3, [3]time.Duration{0, 20 * ms, 200 * ms}, (*processFleet).allLeave},
		{"two of five die and one stands by", 6, 5, [3]time.Duration{0, 300 * ms, 2100 * ms}, (*processFleet).twoOfFiveDie},
	} {
		t.Run(act.name, func(t *testing.T) {
			for i, at := range act.points {
				t.Run(at.String(), func(t *testing.T) {
					t.Parallel()
					f := newProcessFleet(t, act.nodes, act.voters, i%2 == 0)
					act.do(f, at)
				})
			}
		})
	}
}

// processFleet is a fleet of processes.
type processFleet struct {
	t      *testing.T
	all    []*proc
	change func(*processConfig)
}

func newProcessFleet(t *testing.T, nodes, voters int, diskless bool) *processFleet {
	f := &processFleet{t: t, change: func(cfg *processConfig) {
		cfg.ReplaceAfter, cfg.Voters = givesUpSoon, voters
		if diskless {
			cfg.DataDir = ""
		}
	}}
	f.all = procs(t, nodes, f.change)
	for _, p := range f.all {
		p.must(order{Op: "acquire", Name: "own of " + p.cfg.Name, TTL: 15 * time.Second})
	}
	return f
}

// another starts a process at an address and on a directory of its own, as many as voted.
func (f *processFleet) another() *proc {
	cfg := f.all[0].cfg
	cfg.Name = fmt.Sprint(cfg.Name, " ", time.Now().UnixNano())
	cfg.DataDir = filepath.Join(f.t.TempDir(), "data")
	f.change(&cfg)
	p := &proc{t: f.t, cfg: cfg}
	p.start()
	return p
}

// serves wants that processes stay in the group, have what they held, and that each gets the lock.
func (f *processFleet) serves(list ...*proc) {
	f.t.Helper()
	var last holdfast.Token
	for _, p := range list {
		a := p.must(order{Op: "turn", Name: "door", TTL: 5 * time.Second})
		if a.Token <= last {
			f.t.Errorf("token %d after %d", a.Token, last)
		}
		last = a.Token
		if a := p.ask(order{Op: "look", Name: "own of " + p.cfg.Name}); !a.Valid {
			f.t.Errorf("%s stays, and lost its lease: %s", p.cfg.Name, a.Err)
		}
	}
}

// leave has processes leave, each a while after the one before.
func (f *processFleet) leave(pause time.Duration, list ...*proc) {
	f.t.Helper()
	began := time.Now()
	var answers []<-chan answer
	for i, p := range list {
		if i > 0 {
			<-time.After(pause) // real time: the pause is what is tested
		}
		answers = append(answers, p.begin(order{Op: "leave", Timeout: 30 * time.Second}))
	}
	for i, ch := range answers {
		select {
		case a := <-ch:
			if a.Err != "" {
				f.t.Errorf("Leave of %s: %s", list[i].cfg.Name, a.Err)
			}
		case <-time.After(40 * time.Second):
			f.t.Fatalf("%s does not answer Leave", list[i].cfg.Name)
		}
		list[i].stop()
	}
	f.t.Logf("%d left within %v", len(list), time.Since(began).Round(time.Millisecond))
}

// stop ends a process by the end of its input.
func (p *proc) stop() { _ = p.Stop(time.Minute) }

func (f *processFleet) replacementDies(at time.Duration) {
	f.all[0].kill()
	next := f.another()
	<-time.After(at) // real time: when it happens is what is tested
	next.kill()
	f.serves(f.all[1:]...)
	last := f.another()
	last.ready()
	f.serves(f.all[1:]...)
}

func (f *processFleet) madeAnew(pause time.Duration) {
	for i, p := range f.all {
		p.cfg.Bind = p.must(order{Op: "ready"}).Addr
		p.kill()
		if err := os.RemoveAll(p.cfg.DataDir); err != nil {
			f.t.Fatal(err)
		}
		<-time.After(pause) // real time: the pause is what is tested
		p.start()
		p.ready()
		f.serves(f.all[i+1:]...)
	}
	f.all[0].must(order{Op: "turn", Name: "door", TTL: 5 * time.Second})
}

func (f *processFleet) leavesAfterADeath(at time.Duration) {
	f.all[0].kill()
	<-time.After(at) // real time: when it happens is what is tested
	f.leave(0, f.all[1])
	f.serves(f.all[2:]...)
}

func (f *processFleet) severalLeave(pause time.Duration) {
	f.leave(pause, f.all[:3]...)
	f.serves(f.all[3:]...)
}

// Two voters of five die, and one node stands by: when it votes in the place of one of them, and no
// more of the dead count than may, the group survives the next death.
func (f *processFleet) twoOfFiveDie(pause time.Duration) {
	voters := f.voters(f.all[0])
	var dead, living []*proc
	for _, p := range f.all {
		if len(dead) < 2 && slices.Contains(voters, p.must(order{Op: "status"}).Node) {
			dead = append(dead, p)
		} else {
			living = append(living, p)
		}
	}
	dead[0].kill()
	<-time.After(pause) // real time: the pause is what is tested
	dead[1].kill()
	f.serves(living...)
	testkit.Polled(f.t, "group that survives the next death", func() bool {
		now, alive := f.voters(living[0]), 0
		for _, p := range living {
			if slices.Contains(now, p.must(order{Op: "status"}).Node) {
				alive++
			}
		}
		return alive == len(living) && len(now)/2 < alive-1
	})
	living[0].kill()
	f.serves(living[1:]...)
}

// voters are the ids of the nodes that vote as far as p knows.
func (f *processFleet) voters(p *proc) []string {
	f.t.Helper()
	return p.must(order{Op: "status"}).Status.Voters
}

func (f *processFleet) allLeave(pause time.Duration) { f.leave(pause, f.all...) }

// The figure of docs/internals/verification.md: how long nobody has a busy lock while ten processes are
// updated in batches of three.
func TestARollingUpdateOfTenProcessesInBatchesOfThree(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for _, diskless := range []bool{true, false} {
		t.Run(fmt.Sprintf("diskless=%v", diskless), func(t *testing.T) {
			f := newProcessFleet(t, 10, 3, diskless)
			m := new(testkit.Meter)
			m.Reset()
			began := time.Now()
			stop := make(map[*proc]func())
			for _, p := range f.all {
				stop[p] = watch(m, p)
			}
			for batch := range slices.Chunk(slices.Clone(f.all), 3) {
				for _, p := range batch {
					stop[p]()
					if a := p.ask(order{Op: "look", Name: "own of " + p.cfg.Name}); !a.Valid {
						t.Errorf("%s lost a lease before it left: %s", p.cfg.Name, a.Err)
					}
				}
				f.leave(0, batch...)
				var next []*proc
				for range batch {
					next = append(next, f.another())
				}
				for _, p := range next {
					p.ready()
					p.must(order{Op: "acquire", Name: "own of " + p.cfg.Name, TTL: 15 * time.Second})
					stop[p] = watch(m, p)
				}
			}
			gap, turns := m.Read()
			t.Logf("the update took %v; %d turns, the longest gap %v", time.Since(began).Round(time.Millisecond), turns, gap.Round(time.Millisecond))
			for _, end := range stop {
				end()
			}
			if gap > turnTTL/2 { // the machine may be busy; but nobody may have waited for a lease to expire
				t.Errorf("nobody had the lock for %v", gap)
			}
		})
	}
}

// turnTTL is how long the lease of a turn would live.
const turnTTL = 30 * time.Second

// watch has a process take the lock again and again until the returned function is called.
func watch(m *testkit.Meter, p *proc) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if a := p.ask(order{Op: "turn", Name: "door", TTL: turnTTL}); a.Err != "" {
				p.t.Errorf("%s: %s", p.cfg.Name, a.Err)
				return
			}
			m.Turn()
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}
