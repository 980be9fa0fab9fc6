package membership

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	rejoinMin     = 200 * time.Millisecond // first pause while alone
	rejoinMax     = 15 * time.Second       // last pause while alone
	rejoinEvery   = time.Minute            // pause while nobody is missing
	rejoinMissing = 8 * time.Second        // pause while others are here and somebody is missing
	lookupLimit   = 5 * time.Second        // for all lookups of one entry
	addrsMax      = 256                    // addresses tried in one round
	dialsMax      = 4                      // at once
	toldMax       = 8                      // addresses of which an error tells
	streamEvery   = 2 * time.Second        // between exchanges over streams where packets get lost
)

// rejoin looks for the others for as long as the node runs. While it is alone it
// tries often. With others it tries whoever is missing: memberlist forgets the
// dead after half a minute, and would never find the other half of a healed
// network again, which may hold the majority that this half lacks; nor would a
// half whose nodes have all started since. Each minute it looks whether
// somebody is: names may resolve to new nodes; files may change.
func (g *Gossip) rejoin() {
	pause := rejoinMin
	for {
		missing, err := g.round()
		g.setJoinError(err)
		g.triedOnce.Do(func() { close(g.tried) })
		if g.table.alone() {
			if !g.pause(jitter(pause), func() bool { return false }) {
				return
			}
			pause = min(2*pause, rejoinMax)
			continue
		}
		pause = rejoinMin
		every, early := rejoinEvery, g.incomplete
		if missing {
			every, early = rejoinMissing, g.table.alone
		}
		if !g.pause(jitter(every), early) {
			return
		}
	}
}

// gossipByStream exchanges news over streams with members that packets do not
// reach, and that would hear of them at the next push/pull only.
func (g *Gossip) gossipByStream() {
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.exchange()
		case <-g.rejoining.Done():
			return
		}
	}
}

// exchange has a push/pull with a few members that packets do not reach.
func (g *Gossip) exchange() {
	var exchanges sync.WaitGroup
	for _, node := range g.delegate.deafest(dialsMax) {
		if m, ok := g.table.get(node); ok && m.Here() && !m.Local {
			exchanges.Go(func() { _, _ = g.list.Join([]string{m.Addr}) })
		}
	}
	exchanges.Wait()
}

// pause waits for d, or less if early returns true, which is asked now and then,
// but not at once. It returns false when rejoining is over.
func (g *Gossip) pause(d time.Duration, early func() bool) bool {
	for d > 0 {
		step := min(d, rejoinMissing)
		select {
		case <-time.After(step):
			d -= step
		case <-g.rejoining.Done():
			return false
		}
		if early() {
			break
		}
	}
	return g.rejoining.Err() == nil
}

// incomplete tells whether somebody has failed whose address nobody else has
// taken, or no other member is here.
func (g *Gossip) incomplete() bool {
	here := g.here()
	for _, m := range g.table.list() {
		if m.State == Failed && !here[m.Addr] {
			return true
		}
	}
	return g.table.alone()
}

// jitter spreads a pause over 75 to 125 percent.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2)
}

// round tries every address where a member could be that is not here. It
// returns whether there was any, and why it was in vain: nil once anybody
// answered or there is nothing to try.
func (g *Gossip) round() (missing bool, err error) {
	addrs, failed := g.targets()
	if len(addrs) == 0 {
		if g.table.alone() {
			return false, failed
		}
		return false, nil
	}
	answered, told := false, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, dialsMax)
	for _, addr := range addrs {
		slots <- struct{}{}
		if g.rejoining.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			_, err := g.list.Join([]string{addr})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answered = true
			} else if told++; told <= toldMax {
				failed = errors.Join(failed, fmt.Errorf("holdfast: join %s: %w%s", addr, err, explainEOF(err)))
			}
		})
	}
	wg.Wait()
	if answered || !g.table.alone() {
		return true, nil
	}
	return true, failed
}

// explainEOF explains the end of a connection on which nobody said why. The error of memberlist
// wraps nothing.
func explainEOF(err error) string {
	if strings.HasSuffix(strings.TrimSpace(err.Error()), "EOF") {
		return ": it hung up, as nodes of another cluster name, or with other secrets, do"
	}
	return ""
}

// here returns the addresses of those who need not be looked for.
func (g *Gossip) here() map[string]bool {
	addrs := make(map[string]bool)
	for _, m := range g.table.list() {
		if m.Local || m.Here() {
			addrs[m.Addr] = true
		}
	}
	return addrs
}

// targets resolves the join entries and adds the last addresses of those who
// failed. The error tells of entries that could not be resolved.
func (g *Gossip) targets() ([]string, error) {
	var addrs []string
	var failed error
	for _, entry := range g.entries {
		ctx, cancel := context.WithTimeout(g.rejoining, lookupLimit)
		found, err := resolve(ctx, g.resolver, entry)
		cancel()
		addrs, failed = append(addrs, found...), errors.Join(failed, err)
	}
	for _, m := range g.table.list() {
		if m.State == Failed {
			addrs = append(addrs, m.Addr)
		}
	}
	skip := g.here()
	fresh := addrs[:0]
	for _, addr := range addrs {
		if !skip[addr] {
			skip[addr] = true
			fresh = append(fresh, addr)
		}
	}
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	return fresh[:min(len(fresh), addrsMax)], failed
}

func (g *Gossip) setJoinError(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joinErr = err
}
