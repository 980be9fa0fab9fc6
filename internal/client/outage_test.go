package client

import (
	"testing"
	"time"
)

// A client that is served by turns, as by replicas that lost their raft leader and send it away, must
// not say every few seconds that all is well.
func TestAnOutageIsToldOnceAndSoIsItsEnd(t *testing.T) {
	t.Parallel()
	type seen struct {
		after      time.Duration
		served     bool
		lost, back bool
	}
	for _, c := range []struct {
		name string
		seen []seen
	}{
		{"never served", []seen{{9 * time.Second, false, false, false}, {10 * time.Second, false, true, false}, {time.Minute, false, false, false}}},
		{"served all the time", []seen{{time.Second, true, false, false}, {time.Hour, true, false, false}, {time.Hour + time.Second, false, false, false}}},
		{"a short pause", []seen{{time.Second, true, false, false}, {10 * time.Second, false, false, false}, {11 * time.Second, true, false, false}, {20 * time.Second, false, false, false}}},
		{"lost, back, and lost again", []seen{
			{time.Second, true, false, false}, {11 * time.Second, false, true, false}, {12 * time.Second, false, false, false},
			{13 * time.Second, true, false, true}, {14 * time.Second, true, false, false}, {24 * time.Second, false, true, false},
		}},
	} {
		began := time.Unix(1, 0)
		o := outage{served: began}
		for _, s := range c.seen {
			if lost, back, _ := o.look(began.Add(s.after), s.served); lost != s.lost || back != s.back {
				t.Errorf("%s, after %v: lost %v, back %v", c.name, s.after, lost, back)
			}
		}
	}
}
