package lease

import "github.com/tidwall/btree"

// Numbers issues numbers from 1 up and knows the lowest unfinished one. A client numbers its
// requests and its sessions with it: the group need not remember numbers below Lowest. The zero
// value is ready. Its memory grows with the numbers in use, since it keeps runs of finished ones.
type Numbers struct {
	last, floor uint64 // every number up to floor is finished
	open        int
	runs        *btree.Map[uint64, uint64] // finished numbers above floor+1, first of a run to last
}

// Begin returns a new number.
func (n *Numbers) Begin() uint64 {
	n.last++
	n.open++
	return n.last
}

// Finish frees a number. A second time changes nothing.
func (n *Numbers) Finish(number uint64) {
	if number <= n.floor || number > n.last {
		return
	}
	if number == n.floor+1 {
		n.floor = number
	} else if !n.insert(number) {
		return
	}
	n.open--
	if high, ok := n.run(n.floor + 1); ok {
		n.runs.Delete(n.floor + 1)
		n.floor = high
	}
}

// insert adds a number to the runs; false if it is in one.
func (n *Numbers) insert(number uint64) bool {
	if n.runs == nil {
		n.runs = btree.NewMap[uint64, uint64](0)
	}
	low, high := number, number
	finished := false
	n.runs.Descend(number, func(first, last uint64) bool {
		switch {
		case last >= number:
			finished = true
		case last == number-1:
			low = first
		}
		return false
	})
	if finished {
		return false
	}
	if last, ok := n.run(number + 1); ok {
		n.runs.Delete(number + 1)
		high = last
	}
	n.runs.Set(low, high)
	return true
}

// run returns the last number of the run that begins with first.
func (n *Numbers) run(first uint64) (last uint64, ok bool) {
	if n.runs == nil {
		return 0, false
	}
	return n.runs.Get(first)
}

// Lowest is the lowest number in use, or the next one if none is.
func (n *Numbers) Lowest() uint64 { return n.floor + 1 }

// Last is the highest number that was issued, 0 if none was.
func (n *Numbers) Last() uint64 { return n.last }

// Open is the count of numbers in use.
func (n *Numbers) Open() int { return n.open }
