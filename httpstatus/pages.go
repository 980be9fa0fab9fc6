package httpstatus

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// reader answers a GET: the same value is a page and JSON.
type reader func(ctx context.Context, query url.Values) (any, error)

// badRequest is an error of the client.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// Is reports whether target is holdfast.ErrInvalid.
func (e badRequest) Is(target error) bool { return target == holdfast.ErrInvalid }

func (h *handler) json(read reader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r.Context(), r.URL.Query())
		if err != nil {
			writeJSON(w, statusOf(err), map[string]string{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(v) // the client may be gone
}

// page is what every template gets.
type page struct {
	At      string // the page's name
	Node    view.Node
	Now     time.Time
	Version string
	Writes  bool
	Query   url.Values
	Notice  string
	Problem *view.Problem
	V       any
}

// overview is the first page.
type overview struct {
	Members []view.Member
	Total   int
	Locks   locksView
}

func (h *handler) readOverview(ctx context.Context, _ url.Values) (any, error) {
	_, members := h.now()
	v := overview{Members: replicasOf(members), Total: len(members)}
	var err error
	v.Locks, err = h.list(ctx, url.Values{"sort": {"-queue"}, "size": {"8"}}, "waiting")
	if err != nil { // the members are there in any case
		v.Locks.Stale, v.Locks.never = err.Error(), true
	}
	return v, nil
}

func (h *handler) readEvents(context.Context, url.Values) (any, error) { return nil, nil }

// html renders a page.
func (h *handler) html(name string, read reader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r.Context(), r.URL.Query())
		code := http.StatusOK
		if err != nil {
			code = statusOf(err)
		}
		done := h.changes[r.URL.Query().Get("done")].done // an address cannot bring words of its own
		h.render(w, name, code, page{Query: r.URL.Query(), Notice: done, Problem: view.Explain(err), V: v})
	}
}

func (h *handler) render(w http.ResponseWriter, name string, code int, p page) {
	p.At, p.Now, p.Version, p.Writes = name, time.Now(), h.version, h.opts.Authorize != nil
	p.Node, _ = h.now()
	var out bytes.Buffer
	if err := h.pages[name].ExecuteTemplate(&out, "layout", p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = out.WriteTo(w) // the client may be gone
}

// templates are those of all pages, by name.
func templates() map[string]*template.Template {
	base := template.Must(template.New("layout").Funcs(functions()).ParseFS(assets, "assets/layout.html", "assets/parts.html"))
	pages := make(map[string]*template.Template)
	for _, name := range []string{"overview", "members", "locks", "lock", "once", "leases", "events", "failed"} {
		pages[name] = template.Must(template.Must(base.Clone()).ParseFS(assets, "assets/"+name+".html"))
	}
	pages["elections"] = pages["locks"]
	return pages
}

func functions() template.FuncMap {
	return template.FuncMap{
		"words": view.Words, "group": view.Count, "plural": view.Plural,
		"ago":    func(s *float64) string { return view.Words(*s) + " ago" },
		"short":  func(id string) string { return id[:min(len(id), 8)] },
		"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"dict":   dict,
		"link":   link,
		"dec":    func(n int) int { return n - 1 },
		"inc":    func(n int) int { return n + 1 },
		"sorted": sorted,
		"sub":    func(a, b uint64) uint64 { return a - min(a, b) },
		"ints":   func(n uint64) string { return view.Count(int(n)) },
	}
}

// dict makes a map of keys and values, for templates with several arguments.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// link is the query of a link: that of the page with one value changed. Another page than the first
// makes sense for the same list alone.
func link(query url.Values, key string, value any) string {
	q := url.Values{}
	for k, v := range query {
		if slices.Contains([]string{"q", "sort", "show", "size", "page", "name", "key"}, k) && (k != "page" || key == "page") {
			q[k] = v[:1]
		}
	}
	switch v := value.(type) {
	case int:
		q.Set(key, strconv.Itoa(v))
	case string:
		q.Set(key, v)
	}
	return "?" + q.Encode()
}

// sorted is the value of sort that a click on a column's head asks for, and how the column is
// sorted now.
func sorted(now, key string) map[string]string {
	switch now {
	case key:
		return map[string]string{"to": "-" + key, "aria": "ascending", "mark": "▲"}
	case "-" + key:
		return map[string]string{"to": key, "aria": "descending", "mark": "▼"}
	}
	if key == "name" || key == "holder" {
		return map[string]string{"to": key, "aria": "none"}
	}
	return map[string]string{"to": "-" + key, "aria": "none"} // the longest first
}
