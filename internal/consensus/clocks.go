package consensus

import (
	"slices"
	"sync"
	"time"
)

// clocks knows the wall clocks of the other replicas. Every connection begins with a greeting that
// tells its sender's, so a raft leader knows those of all that voted for it: their votes came on
// connections that had begun before.
type clocks struct {
	wall func() time.Time // this node's

	mu    sync.Mutex
	heard map[string]reading // by node: a clock goes on when its node has another replica
	told  chan struct{}      // closed and replaced when one is told
}

// reading is a wall clock, read once. What went by since is taken from this process's monotonic
// clock, which nobody sets.
type reading struct {
	wall time.Duration // since 1970
	at   time.Time
}

const (
	clockMax = (1<<32 - 1) * time.Second // a clock beyond 2106 is wrong, and would eat up the tokens
	// clocksAgree is how far the clocks of a fleet in good order may differ.
	clocksAgree = time.Minute
)

func newClocks(wall func() time.Time) *clocks {
	return &clocks{wall: wall, heard: make(map[string]reading), told: make(chan struct{})}
}

// tell notes the clock of a node, as it was at a time.
func (c *clocks) tell(node string, wall time.Duration, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.heard[node]; !known && len(c.heard) >= heardMax {
		return
	}
	c.heard[node] = reading{wall: believable(wall), at: at}
	close(c.told)
	c.told = make(chan struct{})
}

// now is this node's, since 1970.
func (c *clocks) now() time.Duration {
	now := c.wall()
	seconds := min(max(now.Unix(), 0), int64(clockMax/time.Second)) // others are more than a Duration holds
	return believable(time.Duration(seconds)*time.Second + time.Duration(now.Nanosecond()))
}

func believable(wall time.Duration) time.Duration { return min(max(wall, 0), clockMax) }

// of returns what is known of the clocks of the voters, of which self is this replica, and a
// channel that is closed when more may be.
func (c *clocks) of(voters map[uint64]string, self uint64) (survey, <-chan struct{}) {
	now, own := time.Now(), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := survey{voters: len(voters)}
	for replica, node := range voters {
		if replica == self {
			s.known = append(s.known, own)
		} else if r, ok := c.heard[node]; ok {
			s.known = append(s.known, r.wall+now.Sub(r.at))
		}
	}
	slices.Sort(s.known)
	return s, c.told
}

// survey is what a raft leader knows of the clocks of its group.
type survey struct {
	known  []time.Duration // of voters, since 1970, in order
	voters int
}

// majority reports whether most of the voters are known. A minority may be wrong as a whole.
func (s survey) majority() bool { return 2*len(s.known) > s.voters }

// sure reports whether the clocks of other voters would make no difference: there are none, or
// those that are known agree.
func (s survey) sure() bool {
	return s.majority() && (len(s.known) == s.voters || s.spread() <= clocksAgree)
}

func (s survey) spread() time.Duration { return s.known[len(s.known)-1] - s.known[0] }

// median is the middle one, of an even number the lower: one wrong clock of three does not move it
// beyond the two others. That of a single voter is its own clock.
func (s survey) median() time.Duration { return s.known[(len(s.known)-1)/2] }
