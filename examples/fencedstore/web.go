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

// web is the HTTP resource: GET and PUT of a document, /http without a guard and /http+guard with
// one.
type web struct {
	url    string
	server *http.Server
	done   chan error
	guard  *fence.Memory // lives and dies with the documents, which are in memory too

	mu     sync.Mutex
	bodies map[string]string
}

func serve() (*web, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &web{url: "http://" + listener.Addr().String() + "/", done: make(chan error, 1),
		guard: fence.NewMemory(), bodies: make(map[string]string)}
	mux := http.NewServeMux()
	mux.HandleFunc("/http", w.plain)
	mux.Handle("/http+guard", fence.Handler(w.guard, nil, http.HandlerFunc(w.guarded)))
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { w.done <- w.server.Serve(listener) }()
	return w, nil
}

func (w *web) plain(out http.ResponseWriter, r *http.Request) {
	if data, ok := content(out, r); ok {
		answer(out, w.edit(r, data))
	}
}

// guarded is plain under the guard. Two requests that the Handler has let in may overtake each
// other on the way here, so the guard is asked once more, in one step with the write.
func (w *web) guarded(out http.ResponseWriter, r *http.Request) {
	data, ok := content(out, r)
	if !ok {
		return
	}
	token, _ := fence.FromContext(r.Context())
	var body string
	err := w.guard.Do(r.Context(), r.URL.Path, token, func() error {
		body = w.edit(r, data)
		return nil
	})
	if err != nil {
		fence.Refuse(out, err)
		return
	}
	answer(out, body)
}

// content reads the whole request before anything is locked: it comes as slowly as its sender
// likes.
func content(out http.ResponseWriter, r *http.Request) (string, bool) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
	}
	return string(data), err == nil
}

// answer sends a body when nothing is locked any more: it goes as slowly as its reader likes.
func answer(out http.ResponseWriter, body string) {
	_, _ = io.WriteString(out, body) // who does not hear it has gone
}

// edit is the request's effect; it returns what a GET asks for.
func (w *web) edit(r *http.Request, data string) (body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method == http.MethodPut {
		w.bodies[r.URL.Path] = data
		return ""
	}
	return w.bodies[r.URL.Path]
}

func (w *web) close() error {
	err := w.server.Close()
	<-w.done
	return err
}
