package httpstatus

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/frozen"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/view"
)

func paths() []string {
	return []string{"/", "/members", "/locks", "/elections", "/lock?name=busy", "/once?key=order/1", "/once", "/leases", "/events"}
}

func TestEveryPageIsWholeAndRelativeAndAllowsNoInlineScript(t *testing.T) {
	t.Parallel()
	c := node(t)
	testkit.Acquire(t, c, "busy", holdfast.WithLabel("import of customers"), holdfast.WithValue([]byte("at row 17")))
	testkit.Queue(t, c, "busy", holdfast.WithLabel("next in line"))
	campaign, err := c.Campaign(within(t), "job", holdfast.WithLabel("candidate"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Settles(t, patience, "leader", campaign.IsLeader)
	h := patient(c, Options{Authorize: allow})
	seen := map[string]string{
		"/": "import of customers", "/members": "this node", "/locks": "import of customers", "/elections": "candidate",
		"/lock?name=busy": "at row 17", "/once?key=order/1": "Nobody has run", "/once": "None runs", "/leases": "busy", "/events": "Live events",
	}
	absolute := regexp.MustCompile(`(href|src|action)="(/|\w+:)`)
	inline := regexp.MustCompile(`<script(>| [^>]*[^"]>)[^<]|<style| style=| on\w+=`)
	for _, path := range paths() {
		get(t, h, path) // until the node is served
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, seen[path]) || !strings.HasSuffix(body, "</html>\n") {
			t.Errorf("%s: %d without %q: %s", path, w.Code, seen[path], body)
		}
		if where := absolute.FindString(body); where != "" {
			t.Errorf("%s: %s works below no other path", path, where)
		}
		if where := inline.FindString(body); where != "" {
			t.Errorf("%s: %q is refused by the policy", path, where)
		}
		if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
	_, body := get(t, h, "/lock?name=busy")
	if !strings.Contains(body, "next in line") || !strings.Contains(body, "amber (import of customers) has held it for ") {
		t.Errorf("the page of a lock does not say why it is blocked: %s", body)
	}
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		if code, _ := get(t, h, "/assets/"+name); code != http.StatusOK {
			t.Errorf("%s: %d", name, code)
		}
	}
	for _, path := range []string{"/assets/layout.html", "/assets/..%2fhandler.go", "/nothing", "/api/nothing"} {
		if code, _ := get(t, h, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// Names and labels are other people's words: they stay text wherever they are shown.
func TestHostileNamesStayText(t *testing.T) {
	t.Parallel()
	c := node(t)
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `{{.Node}}`,
		`</title><svg onload=alert(1)>`, "\u202egnp.exe", `../../livez`, `a?b&c=d#e%00`, `<!--`, `]]>`, "\u2028\u2029",
	}
	h := patient(c, Options{Authorize: allow})
	for _, name := range hostile {
		testkit.Acquire(t, c, name, holdfast.WithLabel(name), holdfast.WithValue([]byte(name)))
		testkit.Queue(t, c, name, holdfast.WithLabel(name+name))
	}
	link := regexp.MustCompile(`href="([^"]*)"`)
	tag := regexp.MustCompile(`<(script>|img|svg onload|!--)`)
	for _, name := range hostile {
		for _, path := range append(paths(), "/lock?name="+url.QueryEscape(name), "/locks?q="+url.QueryEscape(name), "/once?key="+url.QueryEscape(name),
			"/events?q="+url.QueryEscape(name), "/members?q="+url.QueryEscape(name), "/leases?q="+url.QueryEscape(name), "/locks?sort="+url.QueryEscape(name)) {
			_, body := get(t, h, path)
			if where := tag.FindString(body); where != "" || strings.Contains(body, " onerror=alert(1)>") && !strings.Contains(body, "onerror=alert(1)&gt;") {
				t.Errorf("%s: %q got into the page", path, where)
			}
		}
		lock := read(t, h, "/api/lock?name="+url.QueryEscape(name))
		if lock["name"] != name || lock["holder"].(map[string]any)["label"] != name {
			t.Errorf("the JSON of %q is %v", name, lock)
		}
		_, body := get(t, h, "/locks?q="+url.QueryEscape(name))
		leads := func(href []string) bool {
			u, err := url.Parse(html.UnescapeString(href[1]))
			return err == nil && u.Path == "lock" && u.Query().Get("name") == name
		}
		if !slices.ContainsFunc(link.FindAllStringSubmatch(body, -1), leads) {
			t.Errorf("no link leads to %q", name)
		}
	}
}

func TestTheNamesOfTheJSONAreStable(t *testing.T) {
	t.Parallel()
	c := node(t)
	testkit.Acquire(t, c, "busy", holdfast.WithLabel("import"))
	testkit.Queue(t, c, "busy")
	done := testkit.Acquire(t, c, "past")
	if err := done.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	h := patient(c, Options{})
	var got strings.Builder
	for _, path := range []string{"status", "members", "locks", "elections", "lock?name=busy", "lock?name=past", "leases", "once?key=k", "once"} {
		for _, name := range names(read(t, h, "/api/"+path), "") {
			fmt.Fprintf(&got, "%s %s\n", path, name)
		}
	}
	event, err := json.Marshal(view.Event{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(event, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(fields, "") {
		fmt.Fprintf(&got, "events %s\n", name)
	}
	frozen.Golden(t, "testdata/names.golden", []byte(got.String())) // tools go by these names
}

// names are the paths of all values.
func names(v any, at string) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			list = append(list, names(value, at+"."+key)...)
		}
	case []any:
		list = append(list, at+"[]")
		for _, value := range v {
			list = append(list, names(value, at+"[]")...)
		}
	default:
		list = append(list, at)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Ten thousand locks are read from the group once for many requests, and a page has one page of
// them.
func TestTenThousandLocksAreServedPageByPage(t *testing.T) {
	t.Parallel()
	c := node(t)
	const many = 10_000
	for i := 0; i < many; i += 50 {
		var set []string
		for j := range 50 {
			set = append(set, fmt.Sprintf("{set}/%05d", i+j))
		}
		if _, err := c.AcquireAll(within(t), set, holdfast.WithTTL(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	h := patient(c, Options{})
	seen := make(map[string]bool)
	for page := 1; page <= 20; page++ {
		v := read(t, h, fmt.Sprintf("/api/locks?size=500&page=%d", page))
		if v["total"] != float64(many) || v["pages"] != 20.0 || len(v["locks"].([]any)) != 500 {
			t.Fatalf("page %d: total %v, pages %v, %d locks", page, v["total"], v["pages"], len(v["locks"].([]any)))
		}
		for _, l := range v["locks"].([]any) {
			seen[l.(map[string]any)["name"].(string)] = true
		}
	}
	if len(seen) != many {
		t.Errorf("the pages have %d of %d locks", len(seen), many)
	}
	_, body := get(t, h, "/locks?sort=-held&page=100")
	if len(body) > 100_000 || !strings.Contains(body, "of 10,000") {
		t.Errorf("a page has %d bytes", len(body))
	}
	if v := read(t, h, "/api/locks?q=/0999"); v["total"] != 10.0 {
		t.Errorf("the search finds %v", v["total"])
	}
	began := time.Now()
	for range 50 {
		get(t, h, "/locks?sort=-token&page=50")
	}
	t.Logf("a page of 10,000 locks takes %v", time.Since(began)/50)
}

func TestAListIsReadOnceASecondHoweverManyAsk(t *testing.T) {
	t.Parallel()
	c := node(t)
	testkit.Acquire(t, c, "a")
	l := newLockList(c, patience)
	fresh := func() (now picture) {
		testkit.Settles(t, patience, "list", func() bool {
			var err error
			now, err = l.get(within(t))
			return err == nil && now.err == nil
		})
		return now
	}
	first := fresh()
	l.tried = time.Now().Add(time.Hour) // as if it was read a moment ago, however slow this machine is
	testkit.Acquire(t, c, "b")
	if again, err := l.get(within(t)); err != nil || again.at != first.at || len(again.rows) != 1 {
		t.Errorf("it was read again: %v, %v", again, err)
	}
	l.tried = time.Time{}
	if later := fresh(); len(later.rows) != 2 {
		t.Errorf("it was not read again: %v", later)
	}
}

func TestListsAreSearchedSortedAndCut(t *testing.T) {
	t.Parallel()
	rows := []view.Row{
		{Name: "a", Holders: 1, Holder: view.Holder{Node: "zebra", Token: 7}, Held: 5, Last: 7},
		{Name: "b", Last: 3},
		{Name: "c", Holders: 1, Holder: view.Holder{Node: "amber", Label: "Import", Token: 9}, Held: 9, Waiters: 4, Last: 9, Kind: "election"},
	}
	for _, test := range []struct{ search, show, key, want string }{
		{"", "", "name", "abc"}, {"", "", "-name", "cba"}, {"", "held", "holder", "ca"}, {"", "held", "-held", "ca"}, {"", "", "token", "bac"},
		{"", "", "-queue", "cab"}, {"import", "", "name", "c"}, {"7", "", "name", "a"}, {"", "waiting", "name", "c"}, {"", "elections", "name", "c"}, {"none", "", "name", ""},
	} {
		got := choose(rows, test.search, test.show)
		err := order(got, test.key)
		var names string
		for _, r := range got {
			names += r.Name
		}
		if err != nil || names != test.want {
			t.Errorf("search %q, show %q, sort %q: %q, %v", test.search, test.show, test.key, names, err)
		}
	}
	for query, want := range map[string]string{
		"": "1 3 50", "page=2": "2 3 50", "page=99": "3 3 50", "page=-1": "1 3 50", "page=x": "1 3 50", "size=1000": "1 1 500", "size=0": "1 3 50", "page=2&size=7": "2 18 7",
	} {
		q, err := url.ParseQuery(query)
		p := pageOf(q, 123)
		if got := fmt.Sprint(p.Page, p.Pages, p.Size); err != nil || got != want || p.from < 0 || p.to > 123 || p.from > p.to {
			t.Errorf("%q: %s, %d to %d, %v", query, got, p.from, p.to, err)
		}
	}
	if p := pageOf(nil, 0); p.Pages != 1 || p.to != 0 {
		t.Errorf("an empty list has %+v", p)
	}
}

func TestRequestsBeyondTheBoundAreRefused(t *testing.T) {
	t.Parallel()
	c := node(t)
	h := &handler{c: c, requests: make(chan struct{}, 1), pages: templates(), locks: newLockList(c, patience)}
	serve := h.bounded(readTime, h.json(h.readStatus))
	h.requests <- struct{}{}
	if code, _ := ask(t, serve, "/api/status"); code != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", code)
	}
	<-h.requests
	if code, _ := get(t, serve, "/api/status"); code != http.StatusOK {
		t.Errorf("the next one: %d", code)
	}
}

func TestTimesAndNumbersAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]string{0: "0.0 s", 9.94: "9.9 s", 59: "59 s", 61: "1 min 1 s", 3660: "1 h 1 min", 90000: "1 d 1 h"} {
		if got := view.Words(s); got != want {
			t.Errorf("%v s: %q", s, got)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := view.Count(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestAValueIsShownWhereItIsText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", view.ValueMax)
	for _, test := range []struct{ value, want string }{{"abc", "abc"}, {"\xff", ""}, {"", ""}, {"a" + long, "a" + long[:view.ValueMax-2]}} {
		v := view.OfLock(holdfast.LockInfo{Value: []byte(test.value)}, holdfast.Blocked{})
		if got := v.Text(); got != test.want {
			t.Errorf("%.10q: %d bytes, %d expected", test.value, len(got), len(test.want))
		}
		if string(v.Value) != test.value {
			t.Errorf("%.10q: the JSON has %d bytes of %d", test.value, len(v.Value), len(test.value))
		}
	}
}

// The holders that a page names are a hundred, and the permits were counted among those alone.
func TestThePermitsOfAllHoldersAreCounted(t *testing.T) {
	t.Parallel()
	info, blocked := holdfast.LockInfo{Limit: 500}, holdfast.Blocked{}
	for range 150 {
		h := holdfast.Holder{Weight: 2}
		info.Holders = append(info.Holders, h)
		blocked.Holders = append(blocked.Holders, holdfast.Hold{Holder: h})
	}
	if v := view.OfLock(info, blocked); len(v.Grants) != 100 || v.Why[0] != "300 of 500 permits are taken, by 150 holders." {
		t.Errorf("%d holders are named; %q", len(v.Grants), v.Why[0])
	}
}

// deadlines is a response whose connection notes its deadlines.
type deadlines struct {
	http.ResponseWriter
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// A form that never came kept one of the places for ever.
func TestARequestHasADeadlineForItsBodyToo(t *testing.T) {
	t.Parallel()
	h := &handler{requests: make(chan struct{}, 1)}
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	h.bounded(time.Second, func(http.ResponseWriter, *http.Request) {})(d, httptest.NewRequest(http.MethodPost, "/release", nil))
	for what, end := range map[string]time.Time{"read": d.read, "write": d.write} {
		if left := time.Until(end); end.IsZero() || left > writeTime {
			t.Errorf("to %s there are %v", what, left)
		}
	}
}

// Without that the first request to the page would panic, in production.
func TestAPageOfNoNodeIsRefusedWhenItIsMade(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it was made")
		}
	}()
	Handler(nil, Options{})
}
