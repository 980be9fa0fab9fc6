package lease

// Numbers hands out numbers from 1 up and knows the lowest that is not finished. A client numbers its
// requests and its sessions so: what is below Lowest the group need not remember. The zero value is ready.
type Numbers struct {
	last, floor uint64 // every number up to floor is finished
	finished    map[uint64]struct{}
}

// Begin returns a number that was never handed out before.
func (n *Numbers) Begin() uint64 { n.last++; return n.last }

// Finish says that nobody asks about a number any more. A second time changes nothing.
func (n *Numbers) Finish(number uint64) {
	if number <= n.floor {
		return
	}
	if n.finished == nil {
		n.finished = make(map[uint64]struct{})
	}
	n.finished[number] = struct{}{}
	for {
		if _, ok := n.finished[n.floor+1]; !ok {
			return
		}
		n.floor++
		delete(n.finished, n.floor)
	}
}

// Lowest is the lowest number that is in use, or the next one if none is.
func (n *Numbers) Lowest() uint64 { return n.floor + 1 }

// Open is how many numbers are in use.
func (n *Numbers) Open() int { return int(n.last-n.floor) - len(n.finished) }
