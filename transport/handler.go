package transport

import (
	"net"
	"sync"
)

// handler takes what comes: the connections of one kind, or packets.
type handler[T any] struct {
	handle  func(T)
	running sync.WaitGroup // calls of handle; it grows under the endpoint's mu, while the endpoint has the handler
}

// begin counts a call of handle, unless h is nil. It is called under the endpoint's mu.
func (h *handler[T]) begin() *handler[T] {
	if h != nil {
		h.running.Add(1)
	}
	return h
}

func (h *handler[T]) call(what T) {
	defer h.running.Done()
	h.handle(what)
}

// Handle gives the connections of the kind to handle.
func (e *endpoint) Handle(kind Kind, handle func(net.Conn)) (stop func()) {
	h := &handler[net.Conn]{handle: handle}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && kind.valid() {
		e.handlers[kind] = h
		close(e.handles)
		e.handles = make(chan struct{})
	}
	return func() {
		e.mu.Lock()
		if e.handlers[kind] == h {
			delete(e.handlers, kind)
		}
		e.mu.Unlock()
		h.running.Wait()
	}
}

// Receive gives the packets sent to this endpoint to handle.
func (e *endpoint) Receive(handle func(Packet)) (stop func()) {
	h := &handler[Packet]{handle: handle}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.receiver = h
	}
	return func() {
		e.mu.Lock()
		if e.receiver == h {
			e.receiver = nil
		}
		e.mu.Unlock()
		h.running.Wait()
	}
}
