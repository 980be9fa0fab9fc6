package membership

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	rejoinMin     = 200 * time.Millisecond // first pause of a lonely node
	rejoinMax     = 15 * time.Second       // its last pause
	rejoinEvery   = time.Minute            // pause while no member is missing
	rejoinMissing = 8 * time.Second        // pause while a member is missing and another is here
	addrsMax      = 256                    // addresses tried in one round
	knownMax      = 4 * dialsMax           // of those known before
	dialsMax      = 4                      // at once, unless Config.Dials says otherwise
	toldMax       = 8                      // addresses in an error
	streamEvery   = 2 * time.Second        // between exchanges over streams, while packets are lost

	// streamProbeWait is how long a probe waits for an answer by packet that none will send, where there
	// are streams alone: the rest of its second is for a stream, whose start takes some round trips.
	streamProbeWait = 10 * time.Millisecond
)

// rejoin searches for members until Leave or Close. A node without other members tries often. Later
// it tries the addresses of missing members: memberlist forgets the dead after half a minute, and
// would never find the other half of a healed network, which may hold the majority. It checks every
// minute, because names may resolve to new nodes and files may change.
func (g *Gossip) rejoin() {
	backoff := retry.Backoff{First: rejoinMin, Max: rejoinMax}
	for lonely := 0; ; {
		missing, err := g.round()
		g.mu.Lock()
		g.joinErr = err
		g.mu.Unlock()
		g.triedOnce.Do(func() { close(g.tried) })
		if g.table.alone() {
			lonely++
			if !g.pause(backoff.Pause(lonely, rand.Float64()), func() bool { return false }) {
				return
			}
			continue
		}
		lonely = 0
		every, early := rejoinEvery, g.incomplete
		if missing {
			every, early = rejoinMissing, g.table.alone
		}
		if !g.pause(jitter(every), early) {
			return
		}
	}
}

// gossipByStream exchanges news over streams with members that packets do not reach: they would
// receive news with the next push/pull only.
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

// exchange does a push/pull with a few members that packets do not reach.
func (g *Gossip) exchange() {
	var exchanges sync.WaitGroup
	for _, node := range g.delegate.deafest(dialsMax) {
		if m, ok := g.table.get(node); ok && m.Here() && !m.Local {
			exchanges.Go(func() { _, _ = g.list.Join([]string{m.Addr}) })
		}
	}
	exchanges.Wait()
}

// pause waits for d, or until early returns true at one of its steps. It returns false after Leave
// or Close.
func (g *Gossip) pause(d time.Duration, early func() bool) bool {
	for d > 0 {
		step := min(d, rejoinMissing)
		if loop.Sleep(g.rejoining, step) != nil {
			return false
		}
		d -= step
		if early() {
			break
		}
	}
	return g.rejoining.Err() == nil
}

// incomplete reports whether a member has failed whose address no other has taken, or no other
// member is here.
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

// round tries every address that may be a missing member's, and those that were known before if these
// lead to no node. It reports whether there was any, and returns the errors unless a node answered.
func (g *Gossip) round() (missing bool, err error) {
	addrs, failed := g.targets()
	strange := make(map[string]error)
	answered, err := g.try(addrs, strange)
	failed = errors.Join(failed, err)
	if !answered && g.table.alone() {
		known := g.knownBefore(addrs)
		addrs = append(addrs, known...)
		answered, err = g.try(known, strange)
		failed = errors.Join(failed, err)
	}
	g.mu.Lock()
	g.strange = strange
	g.mu.Unlock()
	if answered || !g.table.alone() {
		failed = nil
	}
	return len(addrs) > 0, failed
}

// try tries addresses, a few at once, and reports whether a node answered. The error has the first
// errors, and strange gets those of addresses at which something answered.
func (g *Gossip) try(addrs []string, strange map[string]error) (answered bool, failed error) {
	told := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, g.dials)
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
				return
			}
			err = fmt.Errorf("holdfast: join %s: %w%s", addr, err, explainEOF(err))
			if g.carrier.answered(addr) {
				strange[addr] = err
			}
			if told++; told <= toldMax {
				failed = errors.Join(failed, err)
			}
		})
	}
	wg.Wait()
	return answered, failed
}

// knownBefore are a few of the addresses that were known before, without those that were tried: to
// try all would keep a node from its Join entries for long.
func (g *Gossip) knownBefore(tried []string) []string {
	if g.known == nil {
		return nil
	}
	skip := g.here()
	known := slices.DeleteFunc(g.known(), func(addr string) bool { return skip[addr] || slices.Contains(tried, addr) })
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	return known[:min(len(known), knownMax)]
}

// explainEOF explains the end of a connection without a reason. Memberlist's error wraps nothing.
func explainEOF(err error) string {
	if strings.HasSuffix(strings.TrimSpace(err.Error()), "EOF") {
		return ": the node closed the connection: its cluster name or its secrets may differ"
	}
	return ""
}

// here returns the addresses of members that are here.
func (g *Gossip) here() map[string]bool {
	addrs := make(map[string]bool)
	for _, m := range g.table.list() {
		if m.Local || m.Here() {
			addrs[m.Addr] = true
		}
	}
	return addrs
}

// targets resolves the join entries and adds the last addresses of failed members. The error names
// entries that it could not resolve.
func (g *Gossip) targets() ([]string, error) {
	addrs, failed := member.Resolve(g.rejoining, g.resolver, &g.files, g.entries)
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
