package consensus

import (
	"slices"
	"sync"
	"time"
)

// clocks has the wall clocks of the other replicas. Each connection begins with a greeting that has
// its sender's clock, so a raft leader knows the clocks of all its voters: their votes came after
// greetings.
type clocks struct {
	wall func() time.Time // this node's

	mu    sync.Mutex
	heard map[string]reading // by node: its next replica has the same clock
	told  chan struct{}      // closed and replaced with each reading
}

// reading is a wall clock, read once. The time since is this process's monotonic clock.
type reading struct {
	wall time.Duration // since 1970
	at   time.Time
}

const (
	clockMax    = (1<<32 - 1) * time.Second // a clock beyond 2106 is wrong, and would use up the tokens
	clocksMax   = 4096                      // nodes whose clocks are remembered
	clocksAgree = time.Minute
)

func newClocks(wall func() time.Time) *clocks {
	return &clocks{wall: wall, heard: make(map[string]reading), told: make(chan struct{})}
}

// tell notes the clock of a node at a time.
func (c *clocks) tell(node string, wall time.Duration, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.heard[node]; !known && len(c.heard) >= clocksMax {
		return
	}
	c.heard[node] = reading{wall: believable(wall), at: at}
	close(c.told)
	c.told = make(chan struct{})
}

// now is this node's clock, since 1970.
func (c *clocks) now() time.Duration {
	now := c.wall()
	seconds := min(max(now.Unix(), 0), int64(clockMax/time.Second)) // a Duration holds no more
	return believable(time.Duration(seconds)*time.Second + time.Duration(now.Nanosecond()))
}

func believable(wall time.Duration) time.Duration { return min(max(wall, 0), clockMax) }

// of returns the known clocks of the voters, self included, and a channel that is closed when
// another one is known.
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

// survey is what a raft leader knows of the voters' clocks.
type survey struct {
	known  []time.Duration // of voters, since 1970, in order
	voters int
}

// majority reports whether the clocks of most voters are known. A minority may be wrong as a whole.
func (s survey) majority() bool { return 2*len(s.known) > s.voters }

// sure reports whether the clocks of other voters make no difference: none is missing, or the known
// ones agree.
func (s survey) sure() bool {
	return s.majority() && (len(s.known) == s.voters || s.spread() <= clocksAgree)
}

func (s survey) spread() time.Duration { return s.known[len(s.known)-1] - s.known[0] }

// median is the middle clock, of an even number the lower one: one wrong clock of three moves it no
// further than the two others.
func (s survey) median() time.Duration { return s.known[(len(s.known)-1)/2] }
