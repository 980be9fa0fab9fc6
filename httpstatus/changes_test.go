package httpstatus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func form(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func jsonOnly(r *http.Request) { r.Header.Set("Accept", "application/json") }

func TestNothingIsChangedWithoutPermissionOrFromAnotherSiteOrWithoutAReason(t *testing.T) {
	t.Parallel()
	c := node(t)
	l := testkit.Acquire(t, c, "kept")
	take := form("name", "kept", "token", l.Token().String(), "reason", "because")
	deny := func(*http.Request) error { return errors.New("operators only") }
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	old := func(r *http.Request) { // a browser that sends Origin alone
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", "https://elsewhere.example")
	}
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	for name, test := range map[string]struct {
		authorize func(*http.Request) error
		form      url.Values
		change    func(*http.Request)
		code      int
		says      string
	}{
		"read only":           {nil, take, jsonOnly, 403, "read only"},
		"not permitted":       {deny, take, jsonOnly, 403, "operators only"},
		"from another site":   {allow, take, foreign, 403, "another site"},
		"from another origin": {allow, take, old, 403, "another site"},
		"without a reason":    {allow, form("name", "kept", "token", l.Token().String()), jsonOnly, 400, "needs a reason"},
		"a reason of spaces":  {allow, form("name", "kept", "token", l.Token().String(), "reason", " \t"), jsonOnly, 400, "needs a reason"},
		"no form":             {allow, take, asJSON, 400, "needs a reason"},
		"no token":            {allow, form("name", "kept", "token", "x", "reason", "y"), jsonOnly, 400, "not a number"},
		"a token of nobody":   {allow, form("name", "kept", "token", "1", "reason", "y"), jsonOnly, 409, "stale"},
		"a form too large":    {allow, form("name", "kept", "token", "1", "reason", strings.Repeat("y", formMax)), jsonOnly, 400, "too large"},
	} {
		r := post(t, patient(c, Options{Authorize: test.authorize}), "/force-release", test.form, test.change)
		if body := text(t, r); r.StatusCode != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s", name, r.StatusCode, body)
		}
	}
	if !l.Valid() {
		t.Error("the lease is over")
	}
	h := patient(c, Options{})
	if _, body := get(t, h, "/lock?name=kept"); strings.Contains(body, "<form method=\"post\"") {
		t.Error("a page that is read only offers a change")
	}
	if code, _ := get(t, h, "/force-release"); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
		t.Errorf("a GET changes something: %d", code)
	}
}

func TestAnOperatorChangesWhatTheFormsOffer(t *testing.T) {
	t.Parallel()
	fleet := holdfasttest.Fleet(t, 3)
	c, other := fleet[0], fleet[1]
	var log bytes.Buffer
	h := patient(c, Options{Authorize: allow, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	done := func(path string, f url.Values, location string) {
		t.Helper()
		r := post(t, h, path, f)
		if body := text(t, r); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != location {
			t.Fatalf("%s: %d to %q: %s", path, r.StatusCode, r.Header.Get("Location"), body)
		}
	}

	l := testkit.Acquire(t, other, "a b")
	grant := form("name", "a b", "token", l.Token().String(), "reason", "please")
	done("/request-release", grant, "lock?done=request-release&name=a+b")
	select {
	case <-l.Wanted():
	case <-within(t).Done():
		t.Fatal("the holder is not asked")
	}
	if l.WantedReason() != "please" {
		t.Errorf("the reason is %q", l.WantedReason())
	}
	done("/force-release", grant, "lock?done=force-release&name=a+b")
	select {
	case <-l.Done():
	case <-within(t).Done():
		t.Fatal("the lease goes on")
	}
	if !errors.Is(l.Err(), holdfast.ErrForced) {
		t.Errorf("the lease is over with %v", l.Err())
	}
	if _, body := get(t, h, "/lock?name=a+b&done=force-release"); !strings.Contains(body, "The grant is over.") || !strings.Contains(body, "please") {
		t.Errorf("the page does not tell it: %s", body)
	}
	if _, body := get(t, h, "/?done=%3Cb%3Ehello"); strings.Contains(body, "hello") {
		t.Error("an address brings words of its own")
	}

	for _, part := range []string{"change=force-release", "reason=please"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, log.String())
		}
	}
}

func TestAnOperatorChangesNodesAndOnceKeys(t *testing.T) {
	t.Parallel()
	fleet := holdfasttest.Fleet(t, 3)
	c, other := fleet[0], fleet[1]
	h := patient(c, Options{Authorize: allow})
	held := testkit.Acquire(t, other, "held")
	if r := post(t, h, "/revoke-node", form("node", other.ID(), "reason", "it is dead")); r.Header.Get("Location") != "members?done=revoke-node" {
		t.Fatalf("%d to %q: %s", r.StatusCode, r.Header.Get("Location"), text(t, r))
	}
	select {
	case <-held.Done():
	case <-within(t).Done():
		t.Fatal("the node still holds a lock")
	}
	if r := post(t, h, "/remove-node", form("node", other.ID(), "reason", "test"), jsonOnly); r.StatusCode != http.StatusConflict {
		t.Errorf("a node that is heard is removed: %d %s", r.StatusCode, text(t, r))
	}

	// A voter of a busy machine may lag behind for the time of a transfer, or be voted out again.
	testkit.Settles(t, patience, "raft leader", func() bool {
		r := post(t, h, "/transfer-leader", form("node", other.ID(), "reason", "test"))
		done := r.Header.Get("Location") == "members?done=transfer-leader"
		if body := text(t, r); !done && !strings.Contains(body, holdfast.ErrNotTransferred.Error()) {
			t.Fatalf("%d to %q: %s", r.StatusCode, r.Header.Get("Location"), body)
		}
		return done && c.Status().RaftLeader == other.ID()
	})

	if _, err := c.Once(within(t), "k", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if v := read(t, h, "/api/once?key=k"); v["state"] != "finished" {
		t.Errorf("the key is %v", v)
	}
	if v := read(t, h, "/api/once?q=k"); v["total"] != 1.0 {
		t.Errorf("the keys are %v", v)
	}
	if _, body := get(t, h, "/once"); !strings.Contains(body, `<a href="once?key=k">`) || !strings.Contains(body, "finished") {
		t.Errorf("the list has no key: %s", body)
	}
	r := post(t, h, "/forget-once", form("key", "k", "reason", "again"), jsonOnly)
	if body := text(t, r); r.StatusCode != http.StatusOK || !strings.Contains(body, `"done": "forget-once"`) {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	if v := read(t, h, "/api/once?key=k"); v["state"] != "unknown" {
		t.Errorf("the key is %v", v)
	}
}
