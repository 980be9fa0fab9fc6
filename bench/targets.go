package main

import "fmt"

// judge compares the figures with what is aimed at. What was not measured is not judged.
func (r *report) judge() {
	for _, section := range []string{"memory", "disk"} {
		r.judgeLoad(section)
	}
	r.most("Valid", "under 60 ns", 60, "valid", "Valid, quickest of rounds", kindHoldfast, 1)
	r.most("Valid allocations", "none", 0, "valid", "Valid allocations", kindHoldfast, 1)
	for _, where := range []string{"in memory", "on disk"} {
		r.most("Open to Ready (ms), "+where, "under 300", 300, "open", "Open to Ready, single node "+where, kindHoldfast, 1e6)
	}
	for _, role := range []string{roleLeader, roleFollower} {
		r.most("goroutines, "+role, "under 40", 39, "idle", "goroutines, "+role, kindHoldfast, 1)
		r.most("memory (MB), "+role, "at most 30", 30, "idle", "memory over an empty program, "+role, kindHoldfast, 1<<20)
		r.most("idle processor (%), "+role, "at most 2", 2, "idle", "processor, "+role, kindHoldfast, 1)
	}
	r.most("bytes per held lock, replica", "at most 400", 400, "idle", "bytes per held lock, replica", kindHoldfast, 1)
	if one, ok := r.got("idle", "processor, holder of 1", kindHoldfast); ok {
		for _, locks := range []int{10_000, 100_000} {
			r.most(fmt.Sprintf("processor of %d locks over that of one", locks), "at most 2", 2,
				"idle", fmt.Sprintf("processor, holder of %d", locks), kindHoldfast, one)
		}
	}
	r.most("fail-over gap p50 (ms)", "under 400", 400, "failover", "service gap, raft leader killed", kindHoldfast, 1e6)
	r.most("fail-over gap, longest (ms)", "at most 1000", 1000, "failover", "longest service gap, raft leader killed", kindHoldfast, 1e6)
}

func (r *report) judgeLoad(section string) {
	for _, role := range roles() {
		r.most(section+": pair over two proposals, "+role, "at most 1.2", 1.2, section, "acquire+release over proposal, "+role, whoRatio, 2)
	}
	for _, t := range []struct {
		callers string
		least   float64
	}{{"64 callers", 1}, {"256 callers", 1}, {"1024 callers", 1.1}, {"64 callers on 3 nodes", 1}, {"256 callers on 3 nodes", 1}} {
		if ratio, ok := r.got(section, "pairs over proposals, "+t.callers, whoRatio); ok {
			got := 2 * ratio
			r.Targets = append(r.Targets, target{
				Name: section + ": pairs over half the engine's proposals, " + t.callers, Want: fmt.Sprintf("at least %g", t.least),
				Limit: t.least, AtLeast: true, Got: got, Reached: got >= t.least,
			})
		}
	}
	for _, when := range []string{"under load", "among garbage"} {
		r.most(section+": raft leaders lost "+when, "none", 0, section, "raft leaders lost "+when, kindHoldfast, 1)
	}
	for _, where := range []string{"on the raft leader", "between 3 nodes"} {
		for _, kind := range []string{"waiters ready", "back to back"} {
			name := "hand-over over proposal, " + where + ", " + kind
			r.most(section+": "+name, "at most 1.5", 1.5, section, name, whoRatio, 1)
		}
	}
}

// most adds the target that a figure, divided by per, is at most limit.
func (r *report) most(name, want string, limit float64, section, figure, who string, per float64) {
	if v, ok := r.got(section, figure, who); ok && per != 0 {
		r.Targets = append(r.Targets, target{Name: name, Want: want, Limit: limit, Got: v / per, Reached: v/per <= limit})
	}
}
