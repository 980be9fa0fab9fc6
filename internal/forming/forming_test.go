package forming_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	second = lease.Instant(time.Second)
	unix   = 1_790_000_000
)

func fresh(ids ...string) (peers []forming.Peer) {
	for _, id := range ids {
		peers = append(peers, forming.Peer{ID: id, Fresh: true})
	}
	return peers
}

func member(id, cluster string) forming.Peer { return forming.Peer{ID: id, Cluster: cluster} }

func node(self string, bootstrap int) *forming.Forming {
	return forming.New(forming.Config{Self: self, Incarnation: 1, Bootstrap: bootstrap, Join: true}, forming.Vote{}, 0)
}

func at(now lease.Instant, peers ...forming.Peer) forming.Input {
	return forming.Input{Now: now, Unix: unix, Peers: peers, JoinTried: true}
}

func request(from, to string, ballot uint64) forming.Message {
	return forming.Message{Kind: forming.VoteRequest, From: from, To: to, Ballot: ballot}
}

func granted(from, to string, ballot uint64, unix int64) forming.Message {
	return forming.Message{Kind: forming.VoteReply, From: from, To: to, Ballot: ballot, Granted: true, Unix: unix}
}

func release(from, to string, ballot uint64) forming.Message {
	return forming.Message{Kind: forming.Release, From: from, To: to, Ballot: ballot}
}

// answers returns the replies in an Output: whether each was granted.
func answers(o forming.Output) (list []bool) {
	for _, m := range o.Send {
		if m.Kind == forming.VoteReply {
			list = append(list, m.Granted)
		}
	}
	return list
}

func TestSingleNodeFormsAtOnceOrAfterItsJoinEntriesWereTried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		bootstrap int
		join      bool
		tried     bool
		peers     []forming.Peer
		want      forming.Action
	}{
		{"no join entries", 1, false, false, nil, forming.Form},
		{"no join entries, others about", 1, false, false, fresh("a"), forming.Form},
		{"not tried yet", 1, true, false, nil, forming.Wait},
		{"tried", 1, true, true, nil, forming.Form},
		{"tried, and others try too", 1, true, true, fresh("n"), forming.Form},
		{"tried, and a lower one tries too", 1, true, true, fresh("a"), forming.Wait},
		{"a group in sight", 1, false, false, []forming.Peer{member("a", "g")}, forming.Join},
		{"only ever joins", -1, true, true, fresh("n"), forming.Wait},
		{"only ever joins, a group in sight", -1, true, true, []forming.Peer{member("a", "g")}, forming.Join},
	} {
		f := forming.New(forming.Config{Self: "m", Bootstrap: c.bootstrap, Join: c.join}, forming.Vote{}, 0)
		in := at(0, c.peers...)
		in.JoinTried = c.tried
		o := f.Step(in)
		if o.Action != c.want {
			t.Errorf("%s: %v, want %v", c.name, o.Action, c.want)
		}
		if o.Action == forming.Form && o.Counter != unix<<20 {
			t.Errorf("%s: counter %d", c.name, o.Counter)
		}
	}
}

func TestLowestOfEnoughFreshNodesAsksTheNextLowestAndFormsWithAllVotes(t *testing.T) {
	t.Parallel()
	f := node("a", 3)
	if o := f.Step(at(0, fresh("b")...)); o.Action != forming.Wait || len(o.Send) != 0 {
		t.Fatalf("with two of three: %+v", o)
	}
	peers := fresh("d", "c", "b")
	ballot := uint64(1<<32 | 1)
	o := f.Step(at(1*second, peers...))
	if want := []forming.Message{request("a", "b", ballot), request("a", "c", ballot)}; !slices.Equal(o.Send, want) {
		t.Fatalf("asked %+v", o.Send)
	}
	f.Receive(granted("b", "a", ballot, unix+5))
	o = f.Step(at(2*second, peers...))
	if want := []forming.Message{request("a", "c", ballot)}; !slices.Equal(o.Send, want) || o.Action != forming.Wait {
		t.Fatalf("with one vote: %+v", o)
	}
	f.Receive(granted("c", "a", ballot-1, unix+9)) // of another ballot: no vote
	if o = f.Step(at(3*second, peers...)); o.Action != forming.Wait {
		t.Fatalf("formed with a vote for another ballot: %+v", o)
	}
	f.Receive(granted("c", "a", ballot, unix+3))
	if o = f.Step(at(3*second, peers...)); o.Action != forming.Form || o.Counter != (unix+5)<<20 {
		t.Fatalf("with all votes: %+v", o)
	}
}

func TestWildClockOfAVoterDoesNotEatUpTheTokens(t *testing.T) {
	t.Parallel()
	f := node("a", 2)
	f.Step(at(0, fresh("b")...))
	f.Receive(granted("b", "a", 1<<32|1, 1<<62))
	o := f.Step(at(0, fresh("b")...))
	if o.Action != forming.Form || o.Counter >= 1<<52 {
		t.Errorf("counter %d", o.Counter)
	}
}

func TestVoteHeardLongAgoIsAskedForAgainBeforeItCounts(t *testing.T) {
	t.Parallel()
	f := node("a", 3)
	peers := fresh("b", "c")
	f.Step(at(0, peers...))
	f.Receive(granted("b", "a", 1<<32|1, unix))
	f.Step(at(0, peers...))
	f.Receive(granted("c", "a", 1<<32|1, unix))
	if o := f.Step(at(20*second, peers...)); o.Action != forming.Wait {
		t.Error("formed with a vote of 20 s ago")
	}
}

func TestCandidateThatSeesALowerNodeOrAGroupOrMissesAVoterReleasesItsVoters(t *testing.T) {
	t.Parallel()
	for name, peers := range map[string][]forming.Peer{
		"a lower fresh node": fresh("a", "c", "d"),
		"a group":            append(fresh("c", "d"), member("x", "g")),
		"a voter is missing": fresh("d", "e"),
	} {
		f := node("b", 3)
		f.Step(at(0, fresh("c", "d")...))
		o := f.Step(at(second, peers...))
		for _, voter := range []string{"c", "d"} {
			if !slices.Contains(o.Send, release("b", voter, 1<<32|1)) {
				t.Errorf("%s: %s is not released: %+v", name, voter, o.Send)
			}
		}
		f.Receive(granted("c", "b", 1<<32|1, unix))
		if o := f.Step(at(second, peers...)); !slices.Contains(o.Send, release("b", "c", 1<<32|1)) {
			t.Errorf("%s: a late vote is not released: %+v", name, o.Send)
		}
	}
}

func TestVoterVotesOnceAndRepeatsTheSameAnswer(t *testing.T) {
	t.Parallel()
	f := node("c", 3)
	peers := fresh("a", "b")
	f.Receive(request("b", "c", 7))
	o := f.Step(at(0, peers...))
	if !o.Save || o.Vote != (forming.Vote{Candidate: "b", Ballot: 7}) || !slices.Equal(answers(o), []bool{true}) {
		t.Fatalf("first: %+v", o)
	}
	f.Receive(request("b", "c", 7))
	f.Receive(request("a", "c", 1))
	f.Receive(request("b", "c", 6))
	o = f.Step(at(second, peers...))
	if o.Save || !slices.Equal(answers(o), []bool{true, false, false}) {
		t.Fatalf("then: %+v", o)
	}
	f.Receive(request("b", "c", 8))
	if o = f.Step(at(2*second, peers...)); !o.Save || o.Vote.Ballot != 8 {
		t.Fatalf("a later ballot of the same candidate: %+v", o)
	}
}

func TestVoteOnDiskBindsTheNextRunOfTheNode(t *testing.T) {
	t.Parallel()
	f := forming.New(forming.Config{Self: "c", Incarnation: 2, Bootstrap: 3}, forming.Vote{Candidate: "b", Ballot: 7}, 0)
	f.Receive(request("a", "c", 1))
	o := f.Step(at(0, fresh("a", "b")...))
	no := forming.Message{Kind: forming.VoteReply, From: "c", To: "a", Ballot: 1, Unix: unix}
	if o.Save || !slices.Contains(o.Send, no) {
		t.Errorf("voted twice: %+v", o)
	}
}

func TestReleasedOrForsakenVoterVotesAgain(t *testing.T) {
	t.Parallel()
	voted := func() *forming.Forming {
		f := node("c", 3)
		f.Receive(request("b", "c", 7))
		f.Step(at(0, fresh("a", "b")...))
		return f
	}
	f := voted()
	f.Receive(release("b", "c", 6)) // a late one
	f.Receive(release("a", "c", 9)) // of somebody else
	f.Receive(request("a", "c", 1))
	if o := f.Step(at(second, fresh("a", "b")...)); o.Save {
		t.Errorf("freed by the wrong release: %+v", o)
	}
	f.Receive(release("b", "c", 7))
	f.Receive(request("a", "c", 1))
	if o := f.Step(at(second, fresh("a", "b")...)); o.Vote.Candidate != "a" || !o.Save {
		t.Errorf("not free after its release: %+v", o)
	}

	f = voted()
	gone := lease.Instant(forming.AbsentAfter)
	f.Receive(request("a", "c", 1))
	if o := f.Step(at(gone-1, fresh("a")...)); o.Save {
		t.Errorf("free too soon: %+v", o)
	}
	if o := f.Step(at(gone, fresh("a")...)); !o.Save || o.Vote != (forming.Vote{}) {
		t.Errorf("not free of a candidate that is gone: %+v", o)
	}
}

func TestVoterRepeatsItsVoteToFindOutThatItWasReleased(t *testing.T) {
	t.Parallel()
	f := node("c", 3)
	f.Receive(request("b", "c", 7))
	f.Step(at(0, fresh("b")...))
	o := f.Step(at(5*second, fresh("b")...))
	if want := []forming.Message{granted("c", "b", 7, unix)}; !slices.Equal(o.Send, want) {
		t.Errorf("sent %+v", o.Send)
	}
	if o := f.Step(at(60*second, append(fresh("b"), member("x", "g"))...)); len(answers(o)) != 0 {
		t.Errorf("repeated with a group in sight: %+v", o)
	}
}

func TestNobodyVotesThatMayNotFormOrSeesAGroupOrIsACandidateOrIsLower(t *testing.T) {
	t.Parallel()
	ask := func(name string, f *forming.Forming, peers ...forming.Peer) {
		f.Receive(request("b", "c", 7))
		if o := f.Step(at(second, peers...)); o.Save || slices.Contains(answers(o), true) {
			t.Errorf("%s: voted: %+v", name, o)
		}
	}
	ask("only joins", node("c", -1), fresh("b")...)
	ask("sees a group", node("c", 3), append(fresh("b"), member("x", "g"))...)
	candidate := node("c", 3)
	candidate.Step(at(0, fresh("d", "e")...))
	ask("is a candidate", candidate, fresh("d", "e")...)

	lower := node("a", 3)
	lower.Receive(request("b", "a", 7))
	if o := lower.Step(at(second, fresh("b")...)); slices.Contains(answers(o), true) {
		t.Errorf("voted for a node with a higher id: %+v", o)
	}
	stranger := node("c", 3)
	stranger.Receive(request("b", "d", 7))
	if o := stranger.Step(at(second, fresh("b")...)); len(o.Send) != 0 {
		t.Errorf("answered a message for another node: %+v", o)
	}
}

func TestOfTwoGroupsTheLargerIsJoined(t *testing.T) {
	t.Parallel()
	o := node("m", 3).Step(at(0, member("a", "g1"), member("b", "g2"), member("c", "g2")))
	if o.Action != forming.Join || o.Cluster != "g2" {
		t.Errorf("%+v", o)
	}
	o = node("m", 3).Step(at(0, member("a", "g2"), member("b", "g1")))
	if o.Cluster != "g1" {
		t.Errorf("of two equals joined %q", o.Cluster)
	}
}

func TestVoterThatHangsOrHasVotedForAnotherIsReplacedByOneThatIsThere(t *testing.T) {
	t.Parallel()
	f := node("a", 3)
	peers := fresh("b", "c", "d")
	f.Step(at(0, peers...))
	f.Receive(granted("c", "a", 1<<32|1, unix))
	f.Step(at(second, peers...))
	o := f.Step(at(3*second, peers...))
	if !slices.Contains(o.Send, request("a", "d", 1<<32|1)) {
		t.Fatalf("b is silent, and d is not asked: %+v", o.Send)
	}
	f.Receive(granted("d", "a", 1<<32|1, unix))
	if o := f.Step(at(3*second, peers...)); o.Action != forming.Form {
		t.Errorf("has two votes of others: %+v", o)
	}
}
