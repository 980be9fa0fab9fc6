//go:build unix

package versions_test

import (
	"fmt"
	"testing"
)

// journal checks what the processes of a fleet have noted, in its order: one holder at a time, tokens and
// values that rise, no key that runs again after it was finished.
type journal struct {
	killed   map[string]bool   // lives that did not note their end
	holder   map[string]string // lock: life
	last     map[string]uint64 // lock: token
	values   map[string]uint64 // lock: its value, a count
	finished map[string]bool   // keys
}

// next takes a line, and says what is wrong with it.
func (j *journal) next(line string) (fault string) {
	var what, name, life string
	var number uint64
	if _, err := fmt.Sscanf(line, "%s %s %d %s", &what, &name, &number, &life); err != nil {
		return err.Error()
	}
	switch what {
	case "grant":
		if by := j.holder[name]; by != "" && !j.killed[by] {
			fault = "two holders, the other is " + by
		} else if number <= j.last[name] {
			fault = fmt.Sprintf("after token %d", j.last[name])
		}
		j.holder[name], j.last[name] = life, number
	case "end":
		if j.holder[name] != life {
			fault = "it was not the holder"
		}
		j.holder[name] = ""
	case "value":
		if number <= j.values[name] {
			fault = fmt.Sprintf("after value %d", j.values[name])
		}
		j.values[name] = number
	case "ran":
		if j.finished[name] {
			fault = "the key was finished"
		}
	case "finished":
		j.finished[name] = true
	default:
		fault = "unknown"
	}
	return fault
}

func TestTheJournalShowsWhatAVersionBreaks(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"two holders":       {"grant a 1 x#1", "grant a 2 y#2"},
		"a token twice":     {"grant a 2 x#1", "end a 2 x#1", "grant a 2 y#2"},
		"a value forgotten": {"value a 3 x#1", "value a 1 x#1"},
		"a key forgotten":   {"ran k 1 x#1", "finished k 1 x#1", "ran k 2 y#2"},
	} {
		j := journal{holder: make(map[string]string), last: make(map[string]uint64), values: make(map[string]uint64), finished: make(map[string]bool)}
		for i, line := range lines {
			if fault := j.next(line); (fault != "") != (i == len(lines)-1) {
				t.Errorf("%s: line %q: %q", name, line, fault)
			}
		}
	}
}
