package httpstatus

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// now is this node, and the members that it knows.
func (h *handler) now() (view.Node, []view.Member) {
	st := h.c.Status()
	members := view.OfMembers(st, h.c.Members())
	return view.OfNode(st, members), members
}

// statusView is what api/status answers.
type statusView struct {
	Node    view.Node     `json:"node"`
	Members []view.Member `json:"members"` // those with a replica, and this node
	Total   int           `json:"members_total"`
}

func (h *handler) readStatus(context.Context, url.Values) (any, error) {
	node, members := h.now()
	return statusView{Node: node, Members: replicasOf(members), Total: len(members)}, nil
}

// replicasOf leaves out what would make the overview of a large fleet long.
func replicasOf(members []view.Member) (list []view.Member) {
	for _, m := range members {
		if len(members) <= 12 || m.Role != "client" || m.Local {
			list = append(list, m)
		}
	}
	return list
}

// membersView is a page of all members.
type membersView struct {
	Members []view.Member `json:"members"`
	paging
}

func (h *handler) readMembers(_ context.Context, query url.Values) (any, error) {
	_, members := h.now()
	if q := strings.ToLower(query.Get("q")); q != "" {
		members = slices.DeleteFunc(members, func(m view.Member) bool {
			return !strings.Contains(strings.ToLower(strings.Join([]string{m.Name, m.ID, m.Addr, m.Zone, m.Role, m.State}, " ")), q)
		})
	}
	page := pageOf(query, len(members))
	return membersView{Members: members[page.from:page.to], paging: page}, nil
}

// leaseView is a lease of this process.
type leaseView struct {
	Name      string         `json:"name"`
	Token     holdfast.Token `json:"token"`
	Remaining float64        `json:"remaining_seconds"`
	Wanted    bool           `json:"wanted"`
	Reason    string         `json:"wanted_reason"`
}

type leasesView struct {
	Leases []leaseView `json:"leases"`
	paging
}

func (h *handler) readLeases(_ context.Context, query url.Values) (any, error) {
	all := h.c.Leases()
	if q := query.Get("q"); q != "" {
		all = slices.DeleteFunc(all, func(l *holdfast.Lease) bool { return !strings.Contains(l.Name(), q) })
	}
	v := leasesView{Leases: []leaseView{}, paging: pageOf(query, len(all))}
	for _, l := range all[v.from:v.to] {
		lease := leaseView{Name: l.Name(), Token: l.Token(), Remaining: *view.Seconds(l.Remaining()), Reason: l.WantedReason()}
		select {
		case <-l.Wanted():
			lease.Wanted = true
		default:
		}
		v.Leases = append(v.Leases, lease)
	}
	return v, nil
}

// statusOf is the status code for an error of the library.
func statusOf(err error) int {
	for _, known := range []struct {
		err  error
		code int
	}{
		{holdfast.ErrInvalid, http.StatusBadRequest}, {holdfast.ErrStaleToken, http.StatusConflict}, {holdfast.ErrHeld, http.StatusConflict},
		{holdfast.ErrNotRemoved, http.StatusConflict}, {holdfast.ErrNotTransferred, http.StatusConflict},
		{holdfast.ErrExhausted, http.StatusTooManyRequests},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return http.StatusServiceUnavailable
}
