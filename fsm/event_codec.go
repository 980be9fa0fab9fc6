package fsm

import "fmt"

// AppendEvents appends events as they travel to a client.
func AppendEvents(b []byte, events []Event) []byte {
	f := writing(b)
	messages(&f, 1, &events, (*Event).fields)
	return f.out
}

// DecodeEvents reads what AppendEvents has written. They share no memory with b. The error wraps
// ErrMalformed.
func DecodeEvents(b []byte) (events []Event, err error) {
	f := reading(b)
	for f.more() {
		messages(&f, 1, &events, (*Event).fields)
	}
	if f.err != nil {
		return nil, fmt.Errorf("holdfast: events: %w", f.err)
	}
	return events, nil
}

// The numbers of the fields are never reused.
func (e *Event) fields(f *codec) {
	f.uint(1, &e.Index)
	narrow(f, 2, &e.Kind)
	f.session(3, &e.Session)
	f.uint(4, &e.Request)
	f.text(5, &e.Name)
	f.uint(6, &e.Token)
	f.bool(7, &e.Waited)
	f.millis(8, &e.TTL)
	narrow(f, 9, &e.Reason)
	f.text(10, &e.Detail)
	f.text(11, &e.NodeName)
	f.blob(12, &e.Value)
	narrow(f, 13, &e.Mode)
	narrow(f, 14, &e.Weight)
	narrow(f, 15, &e.Limit)
	f.signed(16, &e.Priority)
	f.text(17, &e.Label)
	f.millis(18, &e.Delay)
	f.bool(19, &e.Election)
	f.someNode(20, &e.By)
	narrow(f, 21, &e.Act)
}
