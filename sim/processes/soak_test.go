//go:build unix

package processes_test

import (
	"fmt"
	"math/rand/v2"
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
// do to them, at full load and with snapshots all the time. The log has how often a node called itself ill.
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
	random := rand.New(rand.NewPCG(1, 1))
	for _, strain := range []struct {
		what string
		once func() // a part of it
	}{
		{"at full load", func() { time.Sleep(100 * time.Millisecond) }}, // real time: the load goes on
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

// illnesses is how often the processes' nodes have fallen ill.
func illnesses(list []*proc) (n uint64) {
	for _, p := range list {
		n += p.must(order{Op: "status"}).Status.Illnesses
	}
	return n
}
