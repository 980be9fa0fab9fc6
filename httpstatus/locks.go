package httpstatus

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

const (
	rowsMax   = 20_000      // locks that a list has
	listFresh = time.Second // for which a list is not read again
	pageSize  = 50
	pageMax   = 500
)

// picture is the locks of the group at one moment.
type picture struct {
	rows []view.Row
	more bool      // there are locks beyond rowsMax
	at   time.Time // zero: never read
	err  error     // why it is not newer
}

// lockList reads the locks for all requests: at most one read at a time, and one a second.
type lockList struct {
	c     *holdfast.Cluster
	limit time.Duration // of one read
	turn  chan struct{} // has an element while a request reads, or writes what follows
	last  *picture
	tried time.Time
}

func newLockList(c *holdfast.Cluster, limit time.Duration) lockList {
	return lockList{c: c, limit: limit, turn: make(chan struct{}, 1), last: &picture{}}
}

// enter waits for the turn to read. leave ends it.
func (l *lockList) enter(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lockList) leave() { <-l.turn }

// get is the latest picture. A node that is not ready is not asked: what it knew is shown as stale.
func (l *lockList) get(ctx context.Context) (picture, error) {
	if err := l.enter(ctx); err != nil {
		return picture{}, err
	}
	defer l.leave()
	if st := l.c.Status(); !st.Ready {
		stale := *l.last
		stale.err = errors.New(cmp.Or(st.Waits, "this node is not ready"))
		return stale, nil
	}
	if time.Since(l.tried) < listFresh {
		return *l.last, nil
	}
	now, err := l.read(ctx, "")
	if err != nil {
		stale := *l.last
		stale.err = err
		now = &stale
	}
	l.last, l.tried = now, time.Now()
	return *now, nil
}

// search is the locks whose names begin with prefix, for a group with more locks than a list has.
func (l *lockList) search(ctx context.Context, prefix string) (picture, error) {
	if err := l.enter(ctx); err != nil {
		return picture{}, err
	}
	defer l.leave()
	now, err := l.read(ctx, prefix)
	if err != nil {
		return picture{}, err
	}
	return *now, nil
}

// read asks the group. The read serves other requests, too, so the end of this one does not end it.
func (l *lockList) read(ctx context.Context, prefix string) (*picture, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.limit)
	defer cancel()
	now := &picture{at: time.Now()}
	for info, err := range l.c.Locks(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if len(now.rows) == rowsMax {
			now.more = true
			break
		}
		now.rows = append(now.rows, view.OfRow(info))
	}
	return now, nil
}

// locksView is a page of a list of locks.
type locksView struct {
	Locks  []view.Row `json:"locks"`
	Age    float64    `json:"age_seconds"` // of the list
	Stale  string     `json:"stale"`       // why it is not newer; "" if it is
	More   bool       `json:"more"`        // the group has more locks than a list has: search by the beginning of a name
	Counts counts     `json:"counts"`      // of the whole list
	Query  string     `json:"q"`
	Show   string     `json:"show"`
	Sort   string     `json:"sort"`
	paging
	never bool // nothing was ever read
}

// counts are sums over a list.
type counts struct {
	Locks     int `json:"locks"`
	Held      int `json:"held"`
	Contended int `json:"contended"` // that somebody waits for
	Waiters   int `json:"waiters"`
	Elections int `json:"elections"`
}

// NoPicture reports that nothing was ever read: there is no list to show.
func (v locksView) NoPicture() bool { return v.never }

func (h *handler) readLocks(ctx context.Context, query url.Values) (any, error) {
	return h.list(ctx, query, query.Get("show"))
}

func (h *handler) readElections(ctx context.Context, query url.Values) (any, error) {
	return h.list(ctx, query, "elections")
}

func (h *handler) list(ctx context.Context, query url.Values, show string) (locksView, error) {
	v := locksView{Query: query.Get("q"), Show: cmp.Or(show, "all"), Sort: cmp.Or(query.Get("sort"), "name"), Locks: []view.Row{}}
	now, err := h.locks.get(ctx)
	if err != nil {
		return v, err
	}
	v.Counts, v.More = count(now.rows), now.more
	if now.more && v.Query != "" {
		if now, err = h.locks.search(ctx, v.Query); err != nil {
			return v, err
		}
	}
	if v.never = now.at.IsZero(); !v.never {
		v.Age = *view.Seconds(time.Since(now.at))
	}
	if now.err != nil {
		v.Stale = now.err.Error()
	}
	rows := choose(now.rows, v.Query, v.Show)
	if err := order(rows, v.Sort); err != nil {
		return v, err
	}
	v.paging = pageOf(query, len(rows))
	for _, r := range rows[v.from:v.to] {
		v.Locks = append(v.Locks, *r)
	}
	return v, nil
}

func count(rows []view.Row) (c counts) {
	c.Locks = len(rows)
	for i := range rows {
		c.Waiters += rows[i].Waiters
		if rows[i].Holders > 0 {
			c.Held++
		}
		if rows[i].Waiters > 0 {
			c.Contended++
		}
		if rows[i].Kind == "election" {
			c.Elections++
		}
	}
	return c
}

// choose finds the rows that a search asks for: in whose name, holder, label or token it is.
func choose(rows []view.Row, search, show string) (chosen []*view.Row) {
	search = strings.ToLower(search)
	for i := range rows {
		r := &rows[i]
		switch show {
		case "held":
			if r.Holders == 0 {
				continue
			}
		case "waiting":
			if r.Waiters == 0 {
				continue
			}
		case "elections":
			if r.Kind != "election" {
				continue
			}
		}
		if search == "" || has(r.Name, search) || has(r.Holder.Node, search) || has(r.Holder.Label, search) ||
			has(r.Holder.NodeID, search) || search == r.Holder.Token.String() {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func has(s, lower string) bool { return strings.Contains(strings.ToLower(s), lower) }

// order sorts rows, which come in the order of their names. A minus turns the order round.
func order(rows []*view.Row, key string) error {
	key, down := strings.CutPrefix(key, "-")
	var by func(a, b *view.Row) int
	switch key {
	case "name":
		by = func(a, b *view.Row) int { return cmp.Compare(a.Name, b.Name) }
	case "holder":
		by = func(a, b *view.Row) int { return cmp.Compare(a.Holder.Node, b.Holder.Node) }
	case "token":
		by = func(a, b *view.Row) int { return cmp.Compare(a.Last, b.Last) }
	case "held":
		by = func(a, b *view.Row) int { return cmp.Compare(a.Held, b.Held) }
	case "queue":
		by = func(a, b *view.Row) int { return cmp.Compare(a.Waiters, b.Waiters) }
	default:
		return badRequest("sort is none of name, holder, token, held, queue")
	}
	slices.SortStableFunc(rows, func(a, b *view.Row) int {
		if down {
			return by(b, a)
		}
		return by(a, b)
	})
	return nil
}

// paging is where a page is in a list.
type paging struct {
	Page     int `json:"page"` // from 1
	Pages    int `json:"pages"`
	Size     int `json:"page_size"`
	Total    int `json:"total"`
	from, to int
}

// pageOf cuts a list of total: page and size are of the query, within bounds.
func pageOf(query url.Values, total int) paging {
	number := func(key string, otherwise int) int {
		n, err := strconv.Atoi(query.Get(key))
		if err != nil || n < 1 {
			return otherwise
		}
		return n
	}
	p := paging{Total: total, Size: min(number("size", pageSize), pageMax)}
	p.Pages = max(1, (total+p.Size-1)/p.Size)
	p.Page = min(number("page", 1), p.Pages)
	p.from = (p.Page - 1) * p.Size
	p.to = min(p.from+p.Size, total)
	return p
}

// First and Last are the numbers of the first and last row of the page, from 1.
func (p paging) First() int { return min(p.from+1, p.Total) }

// Last is the number of the last row of the page.
func (p paging) Last() int { return p.to }
