package virtual_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/workload"
	"github.com/holdfast-go/holdfast/transport"
)

// onNetwork injects a fault of the network, if no other fault does.
func (x *nemesis) onNetwork(r *rand.Rand, i int) {
	n := len(x.s.Nodes())
	touched := []int{i} // in front, as it may be the raft leader
	for _, k := range r.Perm(n)[:[]int{0, 0, 1, 1, r.IntN(n)}[r.IntN(5)]] {
		if k != i {
			touched = append(touched, k)
		}
	}
	x.breakNetwork(touched, func() { x.spoil(r, touched) }, x.lasts(r))
}

// breakNetwork breaks the network around some nodes for d, if no other fault has it in its hands.
func (x *nemesis) breakNetwork(touched []int, spoil func(), d time.Duration) bool {
	if !x.takeNetwork() {
		return false
	}
	x.faults.Add(1)
	x.change(func() {
		for _, k := range touched {
			x.ill[k]++
		}
	})
	spoil()
	x.wait(d)
	cut := x.apart(touched)
	x.giveNetwork()
	for _, k := range cut {
		x.recover(k)
	}
	return true
}

// apart are the touched nodes, and all nodes if the touched ones were the majority: the others were cut
// off from it, and are as ill as the touched ones until they serve again.
func (x *nemesis) apart(touched []int) (cut []int) {
	cut = slices.Clone(touched)
	x.change(func() {
		if x.quorum {
			return
		}
		for k := range x.ill {
			if !slices.Contains(touched, k) {
				x.ill[k]++
				cut = append(cut, k)
			}
		}
	})
	return cut
}

// takeNetwork takes the network in hand if nobody has it.
func (x *nemesis) takeNetwork() (free bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	free = !x.network
	x.network = true
	return free
}

// giveNetwork makes the network well, and lets others have it.
func (x *nemesis) giveNetwork() {
	x.calm()
	x.change(func() {
		x.network = false
		clear(x.stormy)
	})
}

// spoil cuts the touched nodes off, one way or both, or from each other alone, or one kind of what
// they say, or makes their network lossy and slow.
func (x *nemesis) spoil(r *rand.Rand, touched []int) {
	var others []int
	for k := range x.s.Nodes() {
		if !slices.Contains(touched, k) {
			others = append(others, k)
		}
	}
	deaf, mute := workload.Chance(r, 60), workload.Chance(r, 60)
	switch what := r.IntN(12); {
	case what < 2:
		x.s.Partition(touched, others)
	case what < 4:
		groups := [][]int{others}
		for _, k := range touched {
			groups = append(groups, []int{k})
		}
		x.s.Partition(groups...)
	case what < 7 || len(touched) < 2:
		for _, k := range touched {
			for _, l := range others {
				if deaf || !mute {
					x.s.Cut(l, k)
				}
				if mute || !deaf {
					x.s.Cut(k, l)
				}
			}
		}
	case what < 8:
		for _, k := range touched[1:] {
			x.s.Cut(touched[0], k)
			if mute {
				x.s.Cut(k, touched[0])
			}
		}
	case what < 10:
		for _, k := range touched {
			if mute {
				x.s.Node(k).CutGossip()
			} else {
				x.s.Node(k).CutRaft()
			}
		}
	default:
		f := x.lossy(r)
		x.change(func() {
			for _, k := range touched {
				x.stormy[k] = true
			}
		})
		for _, k := range touched {
			for l := range x.s.Nodes() {
				if l != k {
					x.s.Faults(k, l, f)
					x.s.Faults(l, k, f)
				}
			}
		}
	}
}

func (x *nemesis) lossy(r *rand.Rand) transport.Faults {
	if workload.Chance(r, 25) {
		return transport.Faults{Large: 600}
	}
	f := transport.Faults{
		Drop: r.Float64() * 0.5, Duplicate: r.Float64() * 0.3, Reorder: r.Float64() * 0.3,
		Delay: time.Duration(r.IntN(100)) * time.Millisecond, Jitter: time.Duration(r.IntN(300)) * time.Millisecond,
	}
	if workload.Chance(r, 30) {
		f.Reset = r.Float64() * 0.05
	}
	return f
}

// calm makes the network as it is when it is well.
func (x *nemesis) calm() {
	x.s.Heal()
	x.s.FaultsEverywhere(x.base)
}
