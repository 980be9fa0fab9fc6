package httpstatus

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/view"
)

// fleetToFall is three nodes of which all but the first can be closed by fall, which returns when
// the first has noticed that it has no majority.
func fleetToFall(t *testing.T) (c *holdfast.Cluster, fall func()) {
	t.Helper()
	fleet := holdfasttest.Fleet(t, 3, holdfasttest.Configure(func(node int, cfg *holdfast.Config) {
		cfg.Name, cfg.DataDir = []string{"amber", "basil", "cedar"}[node], t.TempDir() // with a directory a closed node stays a voter
	}))
	return fleet[0], func() {
		for _, other := range fleet[1:] {
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Settles(t, patience, "the loss of the majority", func() bool { return view.State(fleet[0].Status()) == "no-quorum" })
	}
}

// A fleet loses its majority: the node lives on, says that it is not ready, and shows what it knew.
func TestWithoutAQuorumTheNodeIsAliveNotReadyAndShowsWhatItKnew(t *testing.T) {
	t.Parallel()
	c, fall := fleetToFall(t)
	testkit.Acquire(t, c, "kept", holdfast.WithLabel("before the fall"), holdfast.WithTTL(time.Minute))
	h := patient(c, Options{Authorize: allow})
	for _, path := range []string{"/livez", "/readyz"} {
		if code, body := get(t, h, path); code != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if code, body := get(t, h, "/readyz?verbose"); code != http.StatusOK || body != "[+]ping ok\n[+]node ok\n[+]group ok\n[+]raft-leader ok\n[+]serving ok\nreadyz check passed\n" {
		t.Errorf("%d %q", code, body)
	}
	get(t, h, "/locks")

	fall()
	if code, body := ask(t, h, "/livez?verbose"); code != http.StatusOK || !strings.HasSuffix(body, "livez check passed\n") {
		t.Errorf("liveness depends on the quorum: %d %q", code, body)
	}
	code, body := ask(t, h, "/readyz")
	if code != http.StatusInternalServerError || !strings.Contains(body, "[-]serving failed: ") || !strings.HasSuffix(body, "readyz check failed\n") {
		t.Errorf("%d %q", code, body)
	}
	if code, body := ask(t, h, "/readyz?exclude=serving&exclude=raft-leader"); code != http.StatusOK {
		t.Errorf("what is excluded counts: %d %q", code, body)
	}
	if _, body := ask(t, h, "/"); !strings.Contains(body, "No raft leader") || !strings.Contains(body, "It grants and renews no lock") {
		t.Errorf("the overview does not say it: %s", body)
	}
	if code, body := ask(t, h, "/locks"); code != http.StatusOK || !strings.Contains(body, "before the fall") || !strings.Contains(body, " old. It cannot be read now: ") {
		t.Errorf("the list is not shown as stale: %d %s", code, body)
	}
	if code, body := ask(t, Handler(c, Options{}), "/lock?name=kept"); code != http.StatusServiceUnavailable || !strings.Contains(body, "The group did not answer in time") {
		t.Errorf("the page of a lock: %d %s", code, body)
	}
	code, body = ask(t, patient(c, Options{}), "/locks")
	if code != http.StatusOK || !strings.Contains(body, "The list cannot be read") || strings.Contains(body, "No lock is held") {
		t.Errorf("a list that was never read: %d %s", code, body)
	}

	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := ask(t, h, "/livez"); code != http.StatusInternalServerError || !strings.Contains(body, "[-]node failed: ") {
		t.Errorf("a closed node lives: %d %q", code, body)
	}
	for _, path := range paths() {
		if code, body := ask(t, h, path); !strings.HasSuffix(body, "</html>\n") {
			t.Errorf("%s of a closed node: %d %s", path, code, body)
		}
	}
}

func TestTheStateOfANodeIsOneWord(t *testing.T) {
	t.Parallel()
	ill := holdfast.Status{ClusterID: "c", RaftLeader: "a"}
	ill.Metrics.Ill = true
	for want, st := range map[string]holdfast.Status{
		"serving": {Ready: true}, "failed": {Ready: true, Failure: errors.New("disk")}, "ill": ill,
		"no-quorum": {ClusterID: "c", Metrics: ill.Metrics}, "waiting": {},
	} {
		if got := view.State(st); got != want {
			t.Errorf("%+v: %s", st, got)
		}
	}
}

func TestMembersAreWhatGossipSeesAndWhatRaftHears(t *testing.T) {
	t.Parallel()
	st := holdfast.Status{
		ID: "a", RaftLeader: "a", Voters: []holdfast.Replica{
			{ID: "a"}, {ID: "b", Heard: 100 * time.Millisecond, Behind: 3}, {ID: "x", Name: "gone", Heard: -1, Behind: 70, Ill: "not heard"},
		},
		Standbys: []holdfast.Replica{{ID: "s", Heard: 5 * time.Second, Behind: 1}},
	}
	seen := []holdfast.Member{
		{ID: "c", Name: "client"}, {ID: "s", Name: "standby", Role: holdfast.RoleStandby},
		{ID: "b", Name: "basil", Role: holdfast.RoleVoter, State: holdfast.StateSuspect, Zone: "z1"},
		{ID: "a", Name: "amber", Role: holdfast.RoleVoter, Local: true},
	}
	list := view.OfMembers(st, seen)
	var order []string
	for _, m := range list {
		order = append(order, m.ID)
	}
	if strings.Join(order, "") != "abxsc" {
		t.Fatalf("the order is %v", order)
	}
	if m := list[0]; !m.RaftLeader || m.Heard != nil || m.Behind != nil {
		t.Errorf("the raft leader does not hear itself: %+v", m)
	}
	if m := list[1]; *m.Heard != 0.1 || *m.Behind != 3 || m.State != "suspect" || m.Zone != "z1" {
		t.Errorf("%+v", m)
	}
	if m := list[2]; m.State != "unseen" || m.Role != "voter" || m.Heard != nil || *m.Behind != 70 || m.Ill != "not heard" {
		t.Errorf("a voter that gossip has never seen: %+v", m)
	}
	node := view.OfNode(st, list)
	if node.Heard != 2 || node.Majority != 2 || node.Name != "amber" || node.LeaderName != "amber" || !node.Leads {
		t.Errorf("%+v", node)
	}
	st.ID = "b"
	if m := view.OfMembers(st, seen)[0]; m.Behind != nil {
		t.Errorf("only the raft leader knows who is behind: %+v", m)
	}
}

func TestEveryErrorHasACodeAndWordsForPeople(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		code int
	}{
		{holdfast.ErrInvalid, 400}, {badRequest("x"), 400}, {holdfast.ErrStaleToken, 409}, {holdfast.ErrHeld, 409}, {holdfast.ErrNotRemoved, 409},
		{holdfast.ErrExhausted, 429}, {holdfast.ErrNoQuorum, 503}, {holdfast.ErrClosed, 503}, {context.DeadlineExceeded, 503}, {holdfast.ErrUnknownOutcome, 503},
	} {
		if code := statusOf(test.err); code != test.code {
			t.Errorf("%v: %d", test.err, code)
		}
		if p := view.Explain(test.err); p.Title == "" || p.Text == "" {
			t.Errorf("%v: %+v", test.err, p)
		}
	}
}
