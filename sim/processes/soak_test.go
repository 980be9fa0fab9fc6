//go:build unix

package processes_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// soakVar is for how long TestAHealthyProcessIsWellAgainAfterEachStrain does each of its parts, as "2m". The
// default is for everyday runs, and too short for figures.
const soakVar = "HOLDFAST_SOAK"

// stopped has a process stand still for a while.
func (p *proc) stopped(d time.Duration) {
	p.signal(syscall.SIGSTOP)
	time.Sleep(d) // real time: the process has none
	p.signal(syscall.SIGCONT)
}

// A node that calls itself ill takes its pod out of a balancer or wakes a person. The other way round than
// the tests of nodes that are ill: disks and links are well, and the processes have all that a busy host can
// do to them, at full load and with snapshots all the time. The log has how often a node called itself ill. At
// full load that is an error, unless a process had no processor meanwhile, or a slow disk.
func TestAHealthyProcessIsWellAgainAfterEachStrain(t *testing.T) {
	t.Parallel()
	each := spanOf(t, soakVar, "", 2*time.Second)
	list := procs(t, 3, func(cfg *processConfig) { cfg.SnapshotEvery = 500 })
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i, p := range list {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					<-p.begin(order{Op: "load", Name: fmt.Sprint("of ", i, " "), TTL: time.Second, Timeout: time.Minute})
				}
			}
		})
	}
	if ill, worst := atFullLoad(t, list, each); ill > 0 && worst < promptly {
		t.Errorf("at full load: %d times ill, and no process waited longer than %v for its processor or disk", ill, worst)
	} else {
		t.Logf("at full load, for %v: %d times ill, with up to %v without a processor or for a write", each, ill, worst)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, strain := range []struct {
		what string
		once func() // a part of it
	}{
		{"with a busy garbage collector", func() {
			<-list[random.IntN(3)].begin(order{Op: "burn", TTL: time.Second, Timeout: time.Minute})
		}},
		{"stopped for up to 3 s", func() {
			list[random.IntN(3)].stopped(time.Duration(random.IntN(3000)) * time.Millisecond)
			time.Sleep(500 * time.Millisecond) // real time: it goes on
		}},
		{"with a tenth of a processor", func() {
			p := list[random.IntN(3)]
			for range 30 {
				p.stopped(90 * time.Millisecond)
				time.Sleep(10 * time.Millisecond) // real time: its share
			}
		}},
	} {
		before := illnesses(list)
		for end := time.Now().Add(each); time.Now().Before(end); {
			strain.once()
		}
		for _, p := range list {
			p.saysReady()
		}
		t.Logf("%s, for %v: %d times ill", strain.what, each, illnesses(list)-before)
	}
	close(stop)
	load.Wait()
}

// atFullLoad is how often the processes have fallen ill in a time, and what they waited longest for of the
// machine meanwhile. A process that was starved, or whose disk was slow, may call itself ill.
func atFullLoad(t *testing.T, list []*proc, each time.Duration) (ill uint64, worst time.Duration) {
	t.Helper()
	const before = 3 * time.Second // what makes a node ill began so long ago at most
	dir := t.TempDir()
	var witnesses []<-chan answer
	for _, p := range list {
		o := order{Op: "witness", Name: filepath.Join(dir, p.cfg.Name), TTL: before + each + time.Second}
		o.Timeout = o.TTL + time.Minute
		witnesses = append(witnesses, p.begin(o))
	}
	time.Sleep(before) // real time: the load goes on
	ill = illnesses(list)
	time.Sleep(each) // real time: the same
	ill = illnesses(list) - ill
	for _, w := range witnesses {
		a := <-w
		if a.Err != "" {
			t.Fatal(a.Err)
		}
		worst = max(worst, a.Worst)
	}
	return ill, worst
}

// illnesses is how often the processes' nodes have fallen ill.
func illnesses(list []*proc) (n uint64) {
	for _, p := range list {
		n += p.must(order{Op: "status"}).Status.Illnesses
	}
	return n
}
