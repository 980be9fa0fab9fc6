// Package httpstatus is a page for people and JSON for tools: what a node of Holdfast knows of its
// fleet, as one http.Handler.
//
//	mux.Handle("/holdfast/", http.StripPrefix("/holdfast", httpstatus.Handler(cluster, httpstatus.Options{})))
//
// All links are relative: the handler works below any path that ends with a slash. It has no
// authentication of its own: each client that reaches it reads the names, labels and values of all locks. Put
// the middleware of the service around it.
//
//	GET  ./                  overview: the members, the raft leader, what the autopilot waits for
//	GET  ./locks, ./elections, ./lock?name=, ./once?q=&key=, ./leases, ./events, ./members
//	GET  ./api/status        and the same names below api/: JSON
//	GET  ./api/events        server-sent events; ?prefix= or ?name= selects locks
//	GET  ./livez, ./readyz   as kube-apiserver's: ?verbose, ?exclude=CHECK
//	POST ./request-release, ./force-release, ./revoke-node, ./remove-node, ./transfer-leader, ./forget-once
//
// Every request has a deadline, and so has every write to a slow client. At most 64 requests and 32
// streams of events are served at a time; further ones get 503. A list of locks is read from the
// group at most once a second, however many requests ask for it, and has at most 20,000 locks; in a
// larger group each search is a read, one at a time.
// The pages work without JavaScript, but for the live feed. The handler starts no goroutine that
// outlives its request: http.Server.Shutdown ends the streams.
package httpstatus

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	readTime    = 3 * time.Second  // of a request that asks the group
	writeTime   = 15 * time.Second // of a request that changes something
	requestsMax = 64
	streamsMax  = 32
)

// Options are the settings of a Handler. The zero value makes a page that is read only.
type Options struct {
	// Authorize permits a request that changes something: it returns nil, or an error that the
	// client gets with status 403. It is called for each POST, after the check against requests from
	// other sites. Default nil: nothing can be changed.
	Authorize func(*http.Request) error
	// Logger gets one line for each change, with its reason and its outcome. Default: no lines.
	Logger *slog.Logger
}

//go:embed assets
var assets embed.FS

// handler serves one node.
type handler struct {
	c        *holdfast.Cluster
	opts     Options
	changes  map[string]changeOf
	pages    map[string]*template.Template
	version  string // of the assets
	reading  time.Duration
	locks    lockList
	requests chan struct{} // an element for each request under way
	streams  chan struct{} // an element for each stream of events
	mu       sync.Mutex
	stopping map[*http.Server]chan struct{} // closed when the server shuts down
}

// Handler returns the page and the JSON of a node. It may be mounted several times, and used before
// the node is ready and after it is closed. It needs no Close. It panics if c is nil.
func Handler(c *holdfast.Cluster, opts Options) http.Handler {
	if c == nil { // else the first request would
		panic("httpstatus: Handler of a nil Cluster")
	}
	return newHandler(c, opts, readTime)
}

// newHandler is Handler with another deadline for requests that ask the group: tests have patience.
func newHandler(c *holdfast.Cluster, opts Options, reading time.Duration) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{
		c: c, opts: opts, changes: changesOf(c), pages: templates(), version: hash(), locks: newLockList(c, reading), reading: reading,
		requests: make(chan struct{}, requestsMax), streams: make(chan struct{}, streamsMax),
		stopping: make(map[*http.Server]chan struct{}),
	}
	return headers(h.routes())
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	for path, read := range map[string]reader{
		"overview": h.readOverview, "members": h.readMembers, "locks": h.readLocks, "elections": h.readElections,
		"lock": h.readLock, "once": h.readOnce, "leases": h.readLeases, "events": h.readEvents,
	} {
		page := path
		if path == "overview" {
			page = "{$}"
		}
		mux.Handle("GET /"+page, h.bounded(h.reading, h.html(path, read)))
		if path != "events" && path != "overview" {
			mux.Handle("GET /api/"+path, h.bounded(h.reading, h.json(read)))
		}
	}
	mux.Handle("GET /api/status", h.bounded(h.reading, h.json(h.readStatus)))
	mux.HandleFunc("GET /api/events", h.stream)
	mux.HandleFunc("GET /livez", h.livez)
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.HandleFunc("GET /assets/{file}", h.asset)
	for path := range h.changes {
		mux.Handle("POST /"+path, h.bounded(writeTime, h.change))
	}
	return mux
}

// bounded gives a request a deadline, and refuses it when too many are under way.
func (h *handler) bounded(d time.Duration, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.requests <- struct{}{}:
			defer func() { <-h.requests }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		conn, end := http.NewResponseController(w), time.Now().Add(d+10*time.Second)
		_, _ = conn.SetReadDeadline(end), conn.SetWriteDeadline(end) // a form that never comes keeps no place
		serve(w, r.WithContext(ctx))
	}
}

// headers keeps other people's code out of the pages, and the pages out of other sites.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// asset serves the style and the module. Their addresses carry their hash, so a browser may keep
// them.
func (h *handler) asset(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("file") {
	case "style.css", "live.js", "icon.svg":
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		http.ServeFileFS(w, r, assets, "assets/"+r.PathValue("file"))
	default:
		http.NotFound(w, r)
	}
}

// hash is a name for the content of all assets.
func hash() string {
	sum := sha256.New()
	_ = fs.WalkDir(assets, "assets", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := assets.ReadFile(path)
			sum.Write(text)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)[:6])
}
