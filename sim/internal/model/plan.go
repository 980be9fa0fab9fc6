package model

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Plan is all that decides a run. Leaving out calls or faults leaves a plan that can be run, too.
type Plan struct {
	Story        string `json:",omitempty"` // what a stored plan found once
	Seed         uint64 // of what is not written here: delays, losses, election timeouts
	Nodes        int
	Voters       int             // the first nodes
	Spares       []time.Duration `json:",omitempty"` // when each of the last nodes comes, which no group has yet
	Election     time.Duration
	Sync         time.Duration // a raft leader gathers proposals for so long
	Underway     int           `json:",omitempty"` // entries of a node under way before its further commands travel together; 0: as in the product
	Snapshot     int           // entries between two snapshots of a replica
	Steps        int           `json:",omitempty"` // claims that one command takes away at most; 0: as many as the product's
	Drift        float64       // what the nodes are told about their clocks
	Rates        []float64     // of the clocks
	Wild         bool          // clocks may break that bound: no promise about true time holds
	Gentle       bool          // faults come with room between them: nobody may be late
	Net          Net
	TTLs         []time.Duration
	Locks        []Kind
	Calls        []Call
	Faults       []Fault
	Duration     time.Duration // of the faults
	Operators    bool          // force locks free
	Planned      bool          `json:",omitempty"` // the product's planner changes the membership
	ReplaceAfter time.Duration `json:",omitempty"` // the product's, of a plan that is Planned
	Standbys     int           `json:",omitempty"` // how many follow besides the voters, of a plan that is Planned; 0: every node
	Frail        bool          `json:",omitempty"` // some newcomers die as they are promoted
	Clumsy       bool          `json:",omitempty"` // changes of the membership come late, twice, or without an answer
	Nowhere      bool          `json:",omitempty"` // the nodes do not know where they run, as on some systems
	Compared     bool          `json:",omitempty"` // clocks travel with the messages of Raft, as the product's do
}

// Net is how messages travel, while there are faults at all.
type Net struct {
	Delay, Jitter time.Duration
	Loss, Dup     float64       // parts of all messages; a command is not brought twice
	Straggle      time.Duration // one in 64 is late by up to this
}

// Kind is what sort of lock a name is.
type Kind struct {
	Permits  uint32 // 0: exclusive or shared
	Shared   bool   // some hold it shared
	Election bool   `json:",omitempty"` // most hold it by Lead
	Once     bool   `json:",omitempty"` // a Once key: its calls are runs
}

func (k Kind) limit(m fsm.Mode) uint32 {
	if m == fsm.Permit {
		return k.Permits
	}
	return 0
}

// Call is one Acquire and what follows.
type Call struct {
	Caller, Node, Lock, TTL int
	At                      time.Duration // or when the caller's last one is over
	Wait                    bool
	Mode                    fsm.Mode
	Weight                  uint32
	Priority                int32
	Manual, Value           bool
	Retime                  time.Duration `json:",omitempty"` // of a manual lease: every other renewal is with this TTL; 0: none
	Patience                time.Duration
	Works                   int           // updates of the resource
	Think                   time.Duration // between reading and writing
	Stall                   time.Duration // between looking at the lease and writing
	Hold                    time.Duration // after the last update
	MaxHold                 time.Duration // 0: none
	Others                  uint32        `json:",omitempty"` // a bit for each further lock of a set
	MinHold                 time.Duration `json:",omitempty"` // 0: none
	Delay                   time.Duration `json:",omitempty"` // of the lock after a loss; 0: none
	Keep                    time.Duration `json:",omitempty"` // how long a Once key is remembered
	Fails                   bool          `json:",omitempty"` // the function of a Once key answers an error
	Lead                    bool          `json:",omitempty"` // by Cluster.Lead, whose context ends after Patience
	Asker                   int           // this node asks whether the token is current, with each update; -1: none
}

// sharesMax stands for all of a lock without permits.
const sharesMax = 1000

// share is how much of how much the call's lease takes.
func (c Call) share(k Kind) (weight, limit int) {
	switch {
	case c.Mode == fsm.Permit:
		return int(c.Weight), int(k.Permits)
	case c.Mode == fsm.Shared:
		return 1, sharesMax
	case k.Permits > 0:
		return int(k.Permits), int(k.Permits)
	}
	return sharesMax, sharesMax
}

func (c Call) locks() []int {
	list := make([]int, 1, 1+bits.OnesCount32(c.Others))
	list[0] = c.Lock
	for rest := c.Others &^ (1 << c.Lock); rest != 0; rest &= rest - 1 {
		list = append(list, bits.TrailingZeros32(rest))
	}
	return list
}

func (c Call) brief() string {
	s := fmt.Sprintf("%v, patience %v", c.Mode, c.Patience.Round(time.Millisecond))
	if c.Manual {
		s += ", manual"
		if c.Retime > 0 {
			s += fmt.Sprintf(" with %v, too", c.Retime)
		}
	}
	if !c.Wait {
		s += ", try"
	}
	for _, more := range []struct {
		what string
		d    time.Duration
	}{{"min hold", c.MinHold}, {"max hold", c.MaxHold}, {"delay", c.Delay}, {"keep", c.Keep}} {
		if more.d > 0 {
			s += fmt.Sprintf(", %s %v", more.what, more.d.Round(time.Millisecond))
		}
	}
	if c.Lead {
		s += ", to lead"
	}
	if c.Fails {
		s += ", fails"
	}
	return s
}

// Callers is one more than the highest caller's number.
func (p *Plan) Callers() int {
	n := 0
	for _, c := range p.Calls {
		n = max(n, c.Caller+1)
	}
	return n
}

func (p *Plan) longest() time.Duration { return slices.Max(p.TTLs) }

// maxTTL is what Config.MaxTTL has to be for the plan.
func (p *Plan) maxTTL() time.Duration {
	longest := p.longest()
	for i := range p.Calls {
		longest = max(longest, p.Calls[i].Retime)
	}
	return longest
}

// longestRest is the longest time that a call's place may stay taken after it.
func (p *Plan) longestRest() (d time.Duration) {
	for i := range p.Calls {
		d = max(d, p.Calls[i].MinHold, p.Calls[i].Delay)
	}
	return d
}

func (p *Plan) longestKeep() (d time.Duration) {
	for i := range p.Calls {
		d = max(d, p.Calls[i].Keep)
	}
	return d
}
