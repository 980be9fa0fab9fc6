package autopilot_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"pgregory.net/rapid"
)

// states are all that a replica can be, as far as Next tells them apart.
func states() replicas {
	return replicas{
		well("", ""), lagging(""), failed("", 10*time.Second), failed("", time.Minute), failed("", time.Hour),
		left(well("", "")), left(failed("", time.Second)), left(failed("", time.Hour)),
	}
}

func healthy(of replicas) (n int) {
	for _, r := range of {
		if r.Alive && r.CaughtUp {
			n++
		}
	}
	return n
}

func find(of replicas, node string) int {
	return slices.IndexFunc(of, func(r autopilot.Replica) bool { return r.Node == node })
}

// check holds a change against A1 to A4, computed from the membership before and after.
func check(in autopilot.Input, c autopilot.Change) error {
	if c.Kind == autopilot.None {
		return nil
	}
	if 2*healthy(in.Voters) <= len(in.Voters) {
		return fmt.Errorf("A1: change without a healthy majority")
	}
	voters := slices.Clone(in.Voters)
	v, n := find(in.Voters, c.Node), find(in.NonVoters, c.Node)
	switch {
	case c.Kind == autopilot.Remove && v >= 0:
		r := voters[v]
		voters = slices.Delete(voters, v, v+1)
		others := slices.DeleteFunc(slices.Clone(voters), func(r autopilot.Replica) bool { return r.Left || r.Failed > 30*time.Second })
		switch {
		case r.Node == in.Self:
			return fmt.Errorf("A4: raft leader removes itself")
		case !r.Left && r.Failed <= 30*time.Second:
			return fmt.Errorf("a voter that neither left nor failed for long is removed")
		case !r.Left && len(others) < in.Want && !slices.ContainsFunc(voters, func(r autopilot.Replica) bool { return r.Left && r.Alive }):
			return fmt.Errorf("A3: removed before it was replaced")
		}
	case c.Kind == autopilot.Remove && n >= 0:
		if r := in.NonVoters[n]; !r.Left && r.Failed <= 300*time.Second {
			return fmt.Errorf("a non-voter that neither left nor failed for long is removed")
		}
	case c.Kind == autopilot.Promote && n >= 0:
		r := in.NonVoters[n]
		if !r.Alive || !r.CaughtUp || r.Left {
			return fmt.Errorf("promoted %+v", r)
		}
		voters = append(voters, r)
	case c.Kind == autopilot.AddNonVoter && v < 0 && n < 0:
	default:
		return fmt.Errorf("change of an unknown or known node")
	}
	if 2*healthy(voters) <= len(voters) {
		return fmt.Errorf("A2: no healthy majority after the change")
	}
	return nil
}

// Every group of up to four voters and two non-voters in every combination of states.
func TestNoChangeOfAnySmallGroupBreaksARule(t *testing.T) {
	t.Parallel()
	all := states()
	for voters := range 4 {
		for nonVoters := range 3 {
			total := 1
			for range voters + nonVoters {
				total *= len(all)
			}
			for code := range total {
				in := autopilot.Input{Self: "self", Voters: replicas{well("self", "")}, Candidates: []autopilot.Candidate{{Node: "new"}}}
				for i := range voters + nonVoters {
					r := all[code%len(all)]
					r.Node = fmt.Sprint("n", i)
					code /= len(all)
					if i < voters {
						in.Voters = append(in.Voters, r)
					} else {
						in.NonVoters = append(in.NonVoters, r)
					}
				}
				for _, in.Want = range []int{1, 3} {
					if c := autopilot.Next(in); check(in, c) != nil {
						t.Fatalf("%+v of %+v: %v", c, in, check(in, c))
					}
				}
			}
		}
	}
}

// apply carries out a change and lets time pass: who is alive catches up, who is not stays so.
func apply(in *autopilot.Input, c autopilot.Change) {
	match := func(r autopilot.Replica) bool { return r.Node == c.Node }
	switch c.Kind {
	case autopilot.AddNonVoter:
		i := slices.IndexFunc(in.Candidates, func(k autopilot.Candidate) bool { return k.Node == c.Node })
		in.NonVoters = append(in.NonVoters, autopilot.Replica{Node: c.Node, Zone: in.Candidates[i].Zone, Alive: true})
		in.Candidates = slices.Delete(in.Candidates, i, i+1)
	case autopilot.Promote:
		i := find(in.NonVoters, c.Node)
		in.Voters = append(in.Voters, in.NonVoters[i])
		in.NonVoters = slices.Delete(in.NonVoters, i, i+1)
	case autopilot.Remove:
		in.Voters = slices.DeleteFunc(in.Voters, match)
		in.NonVoters = slices.DeleteFunc(in.NonVoters, match)
	}
	for _, list := range []replicas{in.Voters, in.NonVoters} {
		for i := range list {
			if r := &list[i]; r.Alive {
				r.CaughtUp, r.Stable = true, r.Stable+10*time.Second
			} else {
				r.Failed += 10 * time.Second
			}
		}
	}
}

func TestGroupWithAHealthyMajorityConvergesToTheWantedVoters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := autopilot.Input{Self: "self", Voters: replicas{well("self", "a")}, StableAfter: 20 * time.Second}
		in.Want = rapid.SampledFrom([]int{1, 3, 5, 7}).Draw(t, "want")
		zone := rapid.SampledFrom([]string{"a", "b", "c"})
		draw := func(label string, most int) (list replicas) {
			for i, r := range rapid.SliceOfN(rapid.SampledFrom(states()), 0, most).Draw(t, label) {
				r.Node, r.Zone = fmt.Sprint(label, i), zone.Draw(t, "zone")
				list = append(list, r)
			}
			return list
		}
		in.Voters = append(in.Voters, draw("voter", 6)...)
		in.NonVoters = draw("non-voter", 6)
		for i := range rapid.IntRange(0, 6).Draw(t, "candidates") {
			in.Candidates = append(in.Candidates, autopilot.Candidate{Node: fmt.Sprint("new", i), Zone: zone.Draw(t, "zone")})
		}
		if 2*healthy(in.Voters) <= len(in.Voters) {
			t.Skip("no majority to begin with")
		}
		rest := 0
		for round := 0; rest < 200; round++ {
			c := autopilot.Next(in)
			if err := check(in, c); err != nil {
				t.Fatalf("%+v of %+v: %v", c, in, err)
			}
			rest++
			if c.Kind != autopilot.None {
				rest = 0
			}
			if round > 1000 {
				t.Fatal("never comes to rest")
			}
			apply(&in, c)
		}
		usable := 0
		for _, r := range slices.Concat(in.Voters, in.NonVoters) {
			if r.Alive && !r.Left {
				usable++
			}
			if r.Left {
				t.Fatalf("%+v left and was not removed", r)
			}
		}
		want := min(in.Want, usable)
		if got := healthy(in.Voters); got < want {
			t.Fatalf("%d healthy voters of %d usable nodes, want %d: %+v", got, usable, want, in)
		}
		if healthy(in.Voters) >= in.Want && healthy(in.Voters) < len(in.Voters) {
			t.Fatalf("failed voters stay: %+v", in.Voters)
		}
		if len(in.Candidates) > 0 {
			t.Fatalf("candidates wait: %+v", in.Candidates)
		}
	})
}

func TestOrderOfTheInputsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := autopilot.Input{Self: "self", Voters: replicas{well("self", "")}, Want: 3}
		for i, r := range rapid.SliceOfN(rapid.SampledFrom(states()), 0, 8).Draw(t, "replicas") {
			r.Node = fmt.Sprint("n", i)
			if i%2 == 0 {
				in.NonVoters = append(in.NonVoters, r)
			} else {
				in.Voters = append(in.Voters, r)
			}
		}
		want := autopilot.Next(in)
		in.Voters = rapid.Permutation(in.Voters).Draw(t, "voters")
		in.NonVoters = rapid.Permutation(in.NonVoters).Draw(t, "non-voters")
		if got := autopilot.Next(in); got != want {
			t.Fatalf("%+v, in another order %+v", want, got)
		}
	})
}
