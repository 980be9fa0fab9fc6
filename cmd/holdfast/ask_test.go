package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/frozen"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/view"
)

// contended is a fleet of one node with a lock that somebody waits for, one that is free again, and a
// finished key.
func contended(t *testing.T) (f *fleet, held *holdfast.Lease) {
	t.Helper()
	f = newFleet(t, 1)
	held = f.hold(t, "busy", holdfast.WithLabel("import\u202e"), holdfast.WithValue([]byte("some\x07thing")))
	waiter := f.start(t, "run", "--label", "waits", "busy", "--", "true")
	testkit.Settles(t, patience, "the waiter waits", func() bool {
		info, err := f.nodes[0].Inspect(t.Context(), "busy")
		return err == nil && len(info.Waiters) == 1
	})
	t.Cleanup(waiter.Kill)
	f.ok(t, "run", "past", "--", "true")
	f.ok(t, "run", "--once", "k", "--", "true")
	return f, held
}

func TestAnOperatorSeesWhoHoldsALockAndWhy(t *testing.T) {
	t.Parallel()
	f, held := contended(t)
	token := held.Token().String()
	for what, test := range map[string]struct {
		args []string
		says []string
	}{
		"locks":       {[]string{"locks"}, []string{"NAME", "WAITERS\nbusy  lock", token, "n0 (import\\u202e)", "  1\n"}},
		"by a prefix": {[]string{"locks", "none"}, []string{"NAME  KIND  HOLDER  TOKEN  HELD  WAITERS\n"}},
		"lock":        {[]string{"lock", "busy"}, []string{"busy (lock)\n", "Queue\n#  WAITER", "/holdfast-", "(waits)", token, "Value, 10 bytes\nsome\\u0007thing"}},
		"past":        {[]string{"lock", "past"}, []string{"Nobody holds it", "Past grants", "released", "(true)"}},
		"why":         {[]string{"why", "busy"}, []string{"n0 (import\\u202e) has held it", "1 waiter in the queue"}},
		"free":        {[]string{"why", "free"}, []string{"Nobody holds it: a caller gets it at once.\n"}},
		"once":        {[]string{"once", "k"}, []string{"finished: by ", "/holdfast-"}},
		"keys":        {[]string{"once", "--prefix", "k"}, []string{"KEY  STATE     RUNNER", "\nk    finished  "}},
		"sessions":    {[]string{"sessions"}, []string{"NAME", "  15 s  1     0\n"}},
		"members":     {[]string{"members"}, []string{"NAME  ROLE                STATE", "n0    voter, raft leader  alive", f.nodes[0].ID()}},
		"status":      {[]string{"status"}, []string{"serving", "Raft leader n0, term ", "; 1 voter, 0 standbys; feature level 1"}},
		"never once":  {[]string{"once", "none"}, []string{"unknown"}},
	} {
		out := f.ok(t, test.args...)
		for _, says := range test.says {
			if !strings.Contains(out, says) {
				t.Errorf("%s has no %q:\n%s", what, says, out)
			}
		}
	}
	if got := decode[[]lockRow](t, f, "locks"); len(got) != 1 || got[0].Name != "busy" || got[0].Waiters != 1 || got[0].Holder.Token != held.Token() {
		t.Errorf("the list is %+v", got)
	}
	if got := decode[view.Lock](t, f, "why", "busy"); len(got.Queue) != 1 || got.Queue[0].Label != "waits" {
		t.Errorf("the queue is %+v", got.Queue)
	}
}

func TestAWatchPrintsWhatHappens(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	people, tools := f.start(t, "watch", "job", "--count", "2"), f.start(t, "watch", "-o", "json")
	for _, r := range []*running{people, tools} {
		if said := <-r.said; !strings.Contains(said, "watching") { // from here on it misses nothing
			t.Fatal(said)
		}
	}
	l := f.hold(t, "job")
	if err := l.Release(testkit.Within(t, patience)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"granted", "released"} {
		if line := people.line(t); !strings.Contains(line, kind) || !strings.Contains(line, l.Token().String()) {
			t.Errorf("%q where %q was next", line, kind)
		}
		var e watchEvent
		if err := json.Unmarshal([]byte(tools.line(t)), &e); err != nil || e.Kind != kind || e.Name != "job" || e.Token != l.Token() {
			t.Errorf("%+v where %q was next: %v", e, kind, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, e.At); err != nil || time.Since(at) > patience {
			t.Errorf("at %v: %v", at, err)
		}
	}
	if code := people.code(t); code != 0 {
		t.Errorf("code %d: %s", code, people.err)
	}
	tools.send(t, syscall.SIGINT)
	if code := tools.code(t); code != 0 {
		t.Errorf("code %d: %s", code, tools.err)
	}
}

func TestTheNamesOfTheJSONAreStable(t *testing.T) {
	t.Parallel()
	f, _ := contended(t)
	var got strings.Builder
	for _, args := range [][]string{
		{"locks"}, {"lock", "busy"}, {"lock", "past"}, {"why", "busy"}, {"once", "k"}, {"once"}, {"members"}, {"sessions"}, {"status"}, {"doctor"}, {"keygen"}, {"version"},
		{"release", "busy", "--force", "--reason", "a test", "--yes"},
	} {
		for _, name := range names(decode[any](t, f, args...), "") {
			fmt.Fprintf(&got, "%s %s\n", strings.Join(args[:min(len(args), 2)], " "), name)
		}
	}
	for what, v := range map[string]any{"watch": watchEvent{}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fields any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range names(fields, "") {
			fmt.Fprintf(&got, "%s %s\n", what, name)
		}
	}
	frozen.Golden(t, "testdata/names.golden", []byte(got.String()))
}

// names are the paths of all values.
func names(v any, at string) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			list = append(list, names(value, at+"."+key)...)
		}
	case []any:
		if len(v) == 0 {
			return []string{at + "[]"}
		}
		list = names(v[0], at+"[]")
	default:
		list = []string{at}
	}
	slices.Sort(list)
	return list
}
