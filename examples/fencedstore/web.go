//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// web is the HTTP resource: GET and PUT of a document, /http without a guard and /http+guard with one.
type web struct {
	url    string
	server *http.Server
	done   chan error

	mu     sync.Mutex
	bodies map[string]string
}

func serve() (*web, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &web{url: "http://" + listener.Addr().String() + "/", done: make(chan error, 1), bodies: make(map[string]string)}
	guard := fence.NewMemory() // lives and dies with the documents, which are in memory too
	mux := http.NewServeMux()
	mux.HandleFunc("/http", func(out http.ResponseWriter, r *http.Request) { w.edit(out, r, nil) })
	mux.Handle("/http+guard", fence.Handler(guard, nil, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.edit(out, r, guard)
	})))
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { w.done <- w.server.Serve(listener) }()
	return w, nil
}

// edit answers one request. Two requests that the Handler has let in may overtake each other on the way
// here, so the guard is asked once more under the lock that orders the writes.
func (w *web) edit(out http.ResponseWriter, r *http.Request, guard fence.Guard) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if guard != nil {
		token, _ := fence.FromContext(r.Context())
		if err := guard.Check(r.Context(), r.URL.Path, token); err != nil {
			fence.Refuse(out, err)
			return
		}
	}
	if r.Method == http.MethodPut {
		w.bodies[r.URL.Path] = string(data)
		return
	}
	_, _ = io.WriteString(out, w.bodies[r.URL.Path]) // who does not hear it has gone
}

func (w *web) close() error {
	err := w.server.Close()
	<-w.done
	return err
}
