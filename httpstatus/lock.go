package httpstatus

import (
	"context"
	"net/url"

	"github.com/holdfast-go/holdfast/internal/view"
)

func (h *handler) readLock(ctx context.Context, query url.Values) (any, error) {
	return view.ReadLock(ctx, h.c, query.Get("name"))
}

// keysMax bounds the Once keys that a list has.
const keysMax = 2000

// onceView is a list of Once keys.
type onceView struct {
	State string      `json:"-"` // "": of no key
	Keys  []view.Once `json:"keys"`
	More  bool        `json:"more"` // there are more keys than the list may have
	paging
}

func (h *handler) readOnce(ctx context.Context, query url.Values) (any, error) {
	key := query.Get("key")
	if key == "" {
		return h.readKeys(ctx, query)
	}
	result, err := h.c.InspectOnce(ctx, key)
	if err != nil {
		return view.Once{Key: key}, err
	}
	return view.OfOnce(key, result), nil
}

func (h *handler) readKeys(ctx context.Context, query url.Values) (v onceView, err error) {
	v.Keys = []view.Once{}
	for k, err := range h.c.OnceKeys(ctx, query.Get("q")) {
		if err != nil {
			return v, err
		}
		if v.More = len(v.Keys) == keysMax; v.More {
			break
		}
		v.Keys = append(v.Keys, view.OfOnceKey(k))
	}
	v.paging = pageOf(query, len(v.Keys))
	v.Keys = v.Keys[v.from:v.to]
	return v, nil
}
