package consensus

import (
	"context"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

// When the process of the raft leader dies, its host closes its connections and refuses the next
// dial. A voter that meets both tells the others (see alarm.go), and one of them campaigns without
// waiting for the election timeout. A raft leader that hangs, and one whose host or network is gone
// with it, is left to the timeout. No lease depends on any of this: a holder's session ends by its
// time alone (S9).

// failover feeds the alarm. A goroutine runs while there is something to say.
type failover struct {
	mu      sync.Mutex
	alarm   alarm
	running bool
	news    chan struct{} // of capacity 1
}

// appendMax is how long the log may take to append what the raft leader has sent last.
const appendMax = 20 * time.Millisecond

// ended takes the end of a process' connections.
func (g *Group) ended(e wire.Ending) {
	leader, _ := g.leaders.now()
	if leader.replica != e.Replica || leader.replica == g.cfg.Replica {
		return
	}
	g.carrier.Run(func() {
		if !e.Succeeded && !g.carrier.Gone(e) {
			return
		}
		if e.Term == leader.term {
			g.append(e.Offered)
		}
		g.alarmed(func(a *alarm, now time.Time) {
			if present, _ := g.leaders.now(); present.term > leader.term {
				return // a word about that one may be said by now
			}
			if a.lost(leader, g.reached.Last(), now) {
				g.carrier.Await(e.Replica, e.Incarnation)
			}
		})
	})
}

// append waits a moment until the log has an entry.
func (g *Group) append(index uint64) {
	patience := g.timer(appendMax)
	defer g.dropTimer(patience)
	for {
		grown := g.reached.Reaches(index)
		if grown == nil {
			return
		}
		select {
		case <-grown:
		case <-patience.C:
			return
		case <-g.carrier.Context().Done():
			return
		}
	}
}

// risen notes that a process that was said to be gone was heard.
func (g *Group) risen(replica uint64) {
	g.alarmed(func(a *alarm, now time.Time) { a.risen(replica, now) })
}

// word takes the word of another replica.
func (g *Group) word(from uint64, w wire.Word) {
	if g.nodes.Includes(from) {
		g.alarmed(func(a *alarm, now time.Time) { a.word(from, w, now) })
	}
}

// alarmed tells the alarm something, and sees to it that it is followed.
func (g *Group) alarmed(tell func(*alarm, time.Time)) {
	f := &g.failover
	f.mu.Lock()
	defer f.mu.Unlock()
	tell(&f.alarm, time.Now())
	if !f.running {
		f.running = g.carrier.Run(g.followAlarm)
		return
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// step asks the alarm what to do; nothing ends the goroutine that follows it.
func (f *failover) step(present leader, voters map[uint64]string, leaves map[uint64]bool) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarm.leaves = leaves
	v := f.alarm.step(present, voters, time.Now())
	f.running = !v.idle
	return v
}

// followAlarm does what the alarm says until that is nothing.
func (g *Group) followAlarm() {
	ctx, cancel := context.WithCancel(g.carrier.Context())
	said := &speaking{group: g, ctx: ctx, lines: make(map[uint64]chan wire.Word)}
	defer said.all.Wait()
	defer cancel()
	pace := time.NewTicker(campaignEvery)
	defer pace.Stop()
	for ctx.Err() == nil {
		leader, changed := g.leaders.now()
		voters := g.Members().Voters
		v := g.failover.step(leader, voters, g.leaving(voters))
		if v.idle {
			return
		}
		said.say(v.say, voters)
		if v.campaign && !g.campaign(leader) {
			return
		}
		select {
		case <-pace.C:
		case <-g.failover.news:
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// campaign tells the engine to campaign, if it follows this raft leader still. The engine ignores it
// before it has applied all committed entries. It returns false if the group has failed.
func (g *Group) campaign(of leader) bool {
	err := g.carrier.Inject(raftpb.Message{
		Type: raftpb.TimeoutNow, From: of.replica, To: g.cfg.Replica, ShardID: engine.Shard, Term: of.term,
	})
	if err != nil {
		g.fail(err)
	}
	return err == nil
}

// speaking says words to the other voters, on a connection to each.
type speaking struct {
	group *Group
	ctx   context.Context
	lines map[uint64]chan wire.Word
	all   sync.WaitGroup
	last  wire.Word
	at    time.Time
}

// say says a word, again after a while, and at once if it differs from the last. A line that is not
// there yet has the newest word.
func (s *speaking) say(w wire.Word, voters map[uint64]string) {
	now := time.Now()
	if w == s.last && now.Sub(s.at) < wordEvery {
		return
	}
	s.last, s.at = w, now
	for voter := range voters {
		if voter == s.group.cfg.Replica || voter == w.Leader && !w.Lives {
			continue
		}
		line := s.lines[voter]
		if line == nil {
			line = make(chan wire.Word, 1)
			s.lines[voter] = line
			s.all.Go(func() { s.group.carrier.Speak(s.ctx, voter, line) })
		}
		select {
		case <-line:
		default:
		}
		line <- w // the only sender
	}
}
