package node

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	illLine  = `level=ERROR msg="this node is ill: its calls get no answer, and its leases end unless it recovers"`
	wellLine = `level=WARN msg="this node is well again"`
)

// patient is a node whose illness a test says.
type patient struct {
	*illness
	log  *lines
	told *heard
}

func newPatient() patient {
	p := patient{log: &lines{}, told: &heard{}}
	p.illness = newIllness(New(Config{Logger: p.log.logger(), Listener: p.told}))
	return p
}

// is has the node be ill or well for a while.
func (p patient) is(ill bool, d time.Duration) {
	words := ""
	if ill {
		words = "of a test"
	}
	for range d / p.monitor.Pause() {
		p.tell(words, ill)
		time.Sleep(p.monitor.Pause()) // virtual
	}
}

// wrote are the numbers of lines that say that the node is ill, and that it is well again.
func (p patient) wrote() (ill, well int) {
	return strings.Count(p.log.String(), illLine), strings.Count(p.log.String(), wellLine)
}

// Before, an illness that began within ten seconds of the last line was never in the log, however long it lasted.
func TestAnIllnessThatBeginsSoonAfterAnotherIsInTheLogIfItLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPatient()
		p.is(true, 2*time.Second)
		p.is(false, 2*time.Second)
		p.is(true, 5*time.Second)
		if ill, well := p.wrote(); ill != 1 || well != 1 {
			t.Errorf("after 9 s it has said %d times that it is ill, and %d times that it is well", ill, well)
		}
		p.is(true, 55*time.Second)
		if ill, well := p.wrote(); ill != 2 || well != 1 {
			t.Errorf("after a minute it has said %d times that it is ill, and %d times that it is well", ill, well)
		}
		p.is(false, time.Minute)
		if ill, well := p.wrote(); ill != 2 || well != 2 || !strings.Contains(p.log.String(), wellLine+" after=1m0s") {
			t.Errorf("at the end it has said %d times that it is ill, and %d times that it is well: %s", ill, well, p.log.String())
		}
		if calls := len(p.told.calls); calls != 4 {
			t.Errorf("the listener was told %d times", calls)
		}
	})
}

func TestANodeThatIsIllTimeAndAgainSaysSoOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPatient()
		for range 25 {
			p.is(true, 2*time.Second)
			p.is(false, 2*time.Second)
		}
		if ill, well := p.wrote(); ill < 5 || ill > 10 || well != ill {
			t.Errorf("in 100 s it has said %d times that it is ill, and %d times that it is well", ill, well)
		}
		if calls := len(p.told.calls); calls != 50 {
			t.Errorf("the listener was told %d times", calls)
		}
	})
}

func TestThePatienceIsTwoElectionsOrASecond(t *testing.T) {
	t.Parallel()
	for election, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: time.Second, 300 * time.Millisecond: time.Second, 500 * time.Millisecond: time.Second,
		501 * time.Millisecond: 1002 * time.Millisecond, 3 * time.Second: 6 * time.Second,
	} {
		n := New(Config{Election: election, Listener: &heard{}, Logger: slog.New(slog.DiscardHandler)})
		if got := n.patience(); got != want {
			t.Errorf("with elections of %v it is %v, not %v", election, got, want)
		}
		if pause := n.illness.monitor.Pause(); pause != want/5 {
			t.Errorf("with elections of %v the node is judged each %v", election, pause)
		}
	}
}

// A raft leader that is ill itself hears too little to call a voter ill, or well again.
func TestARaftLeaderThatIsIllJudgesNoVoter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		n := opened(t, &heard{}, Config{Logger: log.logger()})
		ready(t, n)
		p := newPilot(n) // beside that of the node, which has no other voter
		self, other := n.ID(), fsm.Node{2}.String()
		judged := func(ill bool, heard lease.Instant) (warned, well int) {
			synctest.Wait() // the node's own polls of this moment are over
			p.leader.Plan(autopilot.State{
				Self: self, Term: 1, Members: autopilot.Members{Voters: map[uint64]string{1: self, 2: other}, Change: 1},
				Heard: map[uint64]autopilot.Heard{2: {At: heard}}, Departed: func(string) fsm.Departure { return fsm.Stays },
			}, n.clock.Now())
			n.illness.state.Store(&state{ill: ill})
			p.warnOfIll()
			return strings.Count(log.String(), `msg="a voter is ill`), strings.Count(log.String(), `msg="a voter is well again"`)
		}
		begin := n.clock.Now()
		for range 22 { // a poll each half a second, to 11 s: a third of ReplaceAfter is 10 s
			if warned, _ := judged(true, begin); warned > 0 {
				t.Fatal("a raft leader that is ill warns of a voter")
			}
			time.Sleep(pilotPause)
		}
		if warned, well := judged(false, begin); warned != 1 || well != 0 {
			t.Errorf("it is well: it has warned %d times, and said %d times that a voter is well again: %s", warned, well, log.String())
		}
		if _, well := judged(true, n.clock.Now()); well != 0 {
			t.Error("a raft leader that is ill says that a voter is well again")
		}
		if warned, well := judged(false, n.clock.Now()); warned != 1 || well != 1 {
			t.Errorf("it is well: it has warned %d times, and said %d times that a voter is well again", warned, well)
		}
		for _, ill := range []bool{true, false} { // what Status shows of the voter
			synctest.Wait()
			n.pilot.members.Store(&[]autopilot.Member{{Node: other, Role: autopilot.Voter, Heard: time.Minute, Behind: 7}})
			n.illness.state.Store(&state{ill: ill})
			if r := n.replicas(n.replica.Load(), map[uint64]string{2: other})[0]; r.Behind != 7 || (r.Ill == "") != ill {
				t.Errorf("a raft leader that is ill (%v) says of a voter: %+v", ill, r)
			}
		}
		n.Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}
