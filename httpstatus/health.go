package httpstatus

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// check is one line of a health endpoint.
type check struct {
	name string
	ill  string // "": passed
}

// livez fails when only a new process can help. It never depends on the quorum: a restart does not
// bring back a majority.
func (h *handler) livez(w http.ResponseWriter, r *http.Request) {
	answer(w, r, "livez", liveness(h.c.Err()))
}

// readyz fails while the node cannot serve a call that needs the group.
func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	answer(w, r, "readyz", append(liveness(h.c.Err()), readiness(h.c.Status())...))
}

func liveness(failure error) []check {
	node := check{name: "node"}
	if failure != nil {
		node.ill = failure.Error()
	}
	return []check{{name: "ping"}, node}
}

func readiness(st holdfast.Status) []check {
	group, leader, serving := check{name: "group"}, check{name: "raft-leader"}, check{name: "serving"}
	if st.ClusterID == "" {
		group.ill = "the node does not belong to a group yet"
	}
	if st.RaftLeader == "" {
		leader.ill = "no raft leader is known"
	}
	if !st.Ready {
		serving.ill = cmp.Or(st.Waits, "the node is not ready")
	}
	return []check{group, leader, serving}
}

// answer is that of kube-apiserver: "ok", or with verbose, and after a failure, a line for each
// check.
func answer(w http.ResponseWriter, r *http.Request, name string, checks []check) {
	excluded := r.URL.Query()["exclude"]
	var lines strings.Builder
	failed := false
	for _, c := range checks {
		switch {
		case slices.Contains(excluded, c.name):
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.name)
		case c.ill != "":
			failed = true
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", c.name, c.ill)
		default:
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", lines.String(), name)
	case verbose:
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), name)
	default:
		fmt.Fprint(w, "ok")
	}
}
