package forming_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/forming"
	"pgregory.net/rapid"
)

func alone(id, cluster string, birth uint64) forming.Peer {
	return forming.Peer{ID: id, Cluster: cluster, Alone: true, Birth: birth}
}

func drawClaim(t *rapid.T, label string) forming.Claim {
	return forming.Claim{
		Cluster: rapid.SampledFrom([]string{"g", "h", "i"}).Draw(t, label),
		Alone:   rapid.Bool().Draw(t, label+" is alone"),
		Birth:   rapid.Uint64Range(0, 2).Draw(t, label+"'s birth"),
	}
}

// Y1 and Y2: two groups that give each other up leave none, and two that do not serve one lock
// twice.
func TestOfTwoGroupsExactlyOneYieldsUnlessBothHaveBeenJoined(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawClaim(t, "a"), drawClaim(t, "b"), drawClaim(t, "c")
		yields := 0
		for _, y := range []bool{a.YieldsTo(b), b.YieldsTo(a)} {
			if y {
				yields++
			}
		}
		want := 1
		if a.Cluster == b.Cluster || !a.Alone && !b.Alone {
			want = 0
		}
		if yields != want {
			t.Fatalf("%+v and %+v: %d yield", a, b, yields)
		}
		if a.YieldsTo(b) && b.YieldsTo(c) && !a.YieldsTo(c) && a.Cluster != c.Cluster {
			t.Fatalf("%+v yields to %+v, and that to %+v: a cycle", a, b, c)
		}
	})
}

func TestOfSeveralGroupsAFreshNodeJoinsTheOneThatTheOthersYieldTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peers []forming.Peer
		want  string
	}{
		"a joined one before an older one that is not": {[]forming.Peer{alone("a", "g", 1), member("b", "h")}, "h"},
		"the older of two that nobody joined":          {[]forming.Peer{alone("a", "g", 2), alone("b", "h", 1)}, "h"},
		"of the same age, the one with the lower id":   {[]forming.Peer{alone("a", "h", 1), alone("b", "g", 1)}, "g"},
		"the larger of two joined ones":                {[]forming.Peer{member("a", "g"), member("b", "h"), member("c", "h")}, "h"},
		"late news that it is alone count for nothing": {[]forming.Peer{alone("a", "g", 1), member("b", "g"), alone("c", "h", 0)}, "g"},
	} {
		o := node("m", 3).Step(at(0, c.peers...))
		if o.Action != forming.Join || o.Cluster != c.want {
			t.Errorf("%s: %v %s", name, o.Action, o.Cluster)
		}
	}
}

func TestALoneFounderAsksThoseItWouldYieldToAndNobodyElse(t *testing.T) {
	t.Parallel()
	own := forming.Claim{Cluster: "own", Alone: true, Birth: 5}
	groups := forming.Groups([]forming.Peer{
		member("a", "g"), member("b", "g"), alone("c", "older", 4), alone("d", "younger", 6), alone("e", "own", 5),
	})
	var asked []string
	for _, m := range forming.Asks("m", own, groups) {
		asked = append(asked, m.To)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	own.Alone = false
	if list := forming.Asks("m", own, groups); len(list) > 0 {
		t.Errorf("a group that others have joined asks %+v", list)
	}
	var crowd []forming.Peer
	for id := range 100 {
		crowd = append(crowd, member(string(rune('a'+id)), "g"))
	}
	own.Alone = true
	if list := forming.Asks("m", own, forming.Groups(crowd)); len(list) > 10 {
		t.Errorf("%d questions at a time", len(list))
	}
}

func TestAnAnswerCarriesTheClaimToTheOneThatAsked(t *testing.T) {
	t.Parallel()
	claim := forming.Claim{Cluster: "g", Alone: true, Birth: 7}
	m, err := forming.Decode(forming.Answered(forming.Message{Kind: forming.Ask, From: "a", To: "b"}, claim).Encode())
	if err != nil || m.Kind != forming.Answer || m.From != "b" || m.To != "a" || m.Claim() != claim {
		t.Errorf("%+v, %v", m, err)
	}
}
