package history

// Values finds reads of a lock's value that were not written, or that had been overwritten before the read
// began. Every value is written once at most; "" is that of a lock which nobody wrote to.
func Values(h []Event, _ Bounds) (found []Violation) {
	type write struct{ asked, done int } // indexes; done is -1 as long as it may not have happened
	writes := make(map[string]map[string]*write)
	ops := make(map[uint64]*write)
	begun := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case Set:
			w := &write{asked: i, done: -1}
			if writes[e.Lock] == nil {
				writes[e.Lock] = make(map[string]*write)
			}
			writes[e.Lock][e.Value], ops[e.Op] = w, w
		case Done:
			if w := ops[e.Op]; e.OK {
				w.done = i
			}
		case Look:
			begun[e.Op] = i
		case Looked:
			read := writes[e.Lock][e.Value]
			if read == nil && e.Value != "" {
				found = append(found, broken("values are what was written", e.At, e.Lock,
					"nobody wrote %s", e.Value))
				continue
			}
			for value, w := range writes[e.Lock] {
				// w came after the write that was read, and was done before the read began.
				after := read == nil || read.done >= 0 && read.done < w.asked
				if w.done >= 0 && w.done < begun[e.Op] && after && value != e.Value {
					found = append(found, broken("values are current", e.At, e.Lock,
						"%q was read although %s had been written", e.Value, value))
					break
				}
			}
		}
	}
	return found
}
