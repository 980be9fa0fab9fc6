package httpstatus

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

const formMax = 16 << 10 // bytes of a form

// changeOf is something that an operator can do.
type changeOf struct {
	done string // said when it is done
	page string // where the browser goes then, and the parameter of the form that it shows
	key  string
	do   func(ctx context.Context, form url.Values, reason string) error
}

// changesOf are what POST can do on a node, by path.
func changesOf(c *holdfast.Cluster) map[string]changeOf {
	return map[string]changeOf{
		"request-release": {"The holder was asked to let go.", "lock", "name", func(ctx context.Context, form url.Values, reason string) error {
			return onGrant(form, func(name string, token holdfast.Token) error { return c.RequestRelease(ctx, name, token, reason) })
		}},
		"force-release": {"The grant is over.", "lock", "name", func(ctx context.Context, form url.Values, reason string) error {
			return onGrant(form, func(name string, token holdfast.Token) error { return c.ForceRelease(ctx, name, token, reason) })
		}},
		"revoke-node": {"The node holds nothing any more.", "members", "", func(ctx context.Context, form url.Values, reason string) error {
			return c.RevokeNode(ctx, form.Get("node"), reason)
		}},
		"remove-node": {"The node is out of the group.", "members", "", func(ctx context.Context, form url.Values, reason string) error {
			return c.RemoveNode(ctx, form.Get("node"), reason)
		}},
		"transfer-leader": {"The node is raft leader.", "members", "", func(ctx context.Context, form url.Values, reason string) error {
			return c.TransferRaftLeader(ctx, form.Get("node"), reason)
		}},
		"forget-once": {"The key is forgotten: the next call runs it again.", "once", "key", func(ctx context.Context, form url.Values, reason string) error {
			return c.ForgetOnce(holdfast.ContextWithReason(ctx, reason), form.Get("key"))
		}},
	}
}

// onGrant calls do for the grant that a form names.
func onGrant(form url.Values, do func(string, holdfast.Token) error) error {
	token, err := strconv.ParseUint(form.Get("token"), 10, 64)
	if err != nil {
		return badRequest("token is not a number")
	}
	return do(form.Get("name"), holdfast.Token(token))
}

// change carries out a POST.
func (h *handler) change(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	what := h.changes[path]
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		h.refuse(w, r, http.StatusForbidden, &view.Problem{Title: "Refused", Text: "the request comes from another site"})
		return
	}
	if h.opts.Authorize == nil {
		h.refuse(w, r, http.StatusForbidden, &view.Problem{Title: "Refused", Text: "this page is read only", Advice: "Options.Authorize permits changes."})
		return
	}
	if err := h.opts.Authorize(r); err != nil {
		h.refuse(w, r, http.StatusForbidden, &view.Problem{Title: "Refused", Text: err.Error()})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, formMax)
	if err := r.ParseForm(); err != nil {
		h.refuse(w, r, http.StatusBadRequest, &view.Problem{Title: "The form cannot be read", Text: err.Error()})
		return
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	err := error(badRequest("a change needs a reason"))
	if reason != "" {
		err = what.do(r.Context(), r.PostForm, reason)
	}
	h.opts.Logger.Info("an operator's change", "change", path, "name", r.PostForm.Get("name")+r.PostForm.Get("key"),
		"token", r.PostForm.Get("token"), "node", r.PostForm.Get("node"), "reason", reason, "from", r.RemoteAddr, "error", err)
	switch {
	case err != nil:
		h.refuse(w, r, statusOf(err), view.Explain(err))
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, map[string]string{"done": path})
	default:
		to := url.Values{"done": {path}}
		if what.key != "" {
			to.Set(what.key, r.PostForm.Get(what.key))
		}
		w.Header().Set("Location", what.page+"?"+to.Encode()) // relative: the handler does not know where it is mounted
		w.WriteHeader(http.StatusSeeOther)
	}
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// refuse answers a change that did not happen.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, code int, p *view.Problem) {
	if wantsJSON(r) {
		writeJSON(w, code, map[string]string{"error": fmt.Sprintf("%s: %s", p.Title, p.Text)})
		return
	}
	h.render(w, "failed", code, page{Query: url.Values{}, Problem: p})
}
