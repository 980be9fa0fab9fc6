package workload

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// How long a holder thinks between what it reads and what it writes.
const (
	thinkMin = 30 * time.Millisecond
	thinkMax = 250 * time.Millisecond
)

// Think is a time for which a holder thinks. One that is stopped meanwhile may lose its lease.
func Think(r *rand.Rand) time.Duration { return thinkMin + UpTo(r, thinkMax-thinkMin) }

// checkpoint goes on from the number that the holder before left as the lock's value, and leaves a
// higher one. It does not look at its lease in between: the group alone keeps out those whose time
// is over.
func (n *Node) checkpoint(t *tenure, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		info, err := n.inspect(t.c, t.kind.Name)
		if err != nil {
			return
		}
		var last int
		if len(info.Value) > 0 {
			if _, err := fmt.Sscan(string(info.Value), &last); err != nil {
				n.wrong("the checkpoint is %q", info.Value)
				return
			}
		}
		time.Sleep(Think(r))
		op := n.record.Op()
		if n.set(t, op, fmt.Sprint(last+1, " ", op), nil) != nil {
			return
		}
		n.probe(t)
	}
}

// Checkpoints finds two checkpoints that came after the same one: the first of them was lost.
func Checkpoints(h []history.Event) (found []history.Violation) {
	for _, line := range history.Lines(h) {
		written := make(map[int]history.Event)
		for _, e := range line {
			if e.Kind != history.Done || !e.OK || e.Lock != Checkpoint {
				continue
			}
			var n int
			if _, err := fmt.Sscan(e.Value, &n); err != nil {
				found = append(found, broken("a checkpoint is a number", e, "%q", e.Value))
				continue
			}
			if before, ok := written[n]; ok {
				found = append(found, broken("no checkpoint is lost", e,
					"token %d has written number %d, as token %d had at %v", e.Token, n, before.Token, before.At))
			}
			written[n] = e
		}
	}
	return found
}

func broken(rule string, e history.Event, format string, args ...any) history.Violation {
	return history.Violation{Rule: rule, At: e.At, Lock: e.Lock, Text: fmt.Sprintf(format, args...)}
}
