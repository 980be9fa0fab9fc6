package httpstatus

import (
	"context"
	"net/url"

	"github.com/holdfast-go/holdfast/internal/view"
)

func (h *handler) readLock(ctx context.Context, query url.Values) (any, error) {
	name := query.Get("name")
	info, err := h.c.Inspect(ctx, name)
	if err != nil {
		return view.Lock{}, err
	}
	blocked, err := h.c.WhyBlocked(ctx, name)
	if err != nil {
		return view.Lock{}, err
	}
	return view.OfLock(info, blocked), nil
}

func (h *handler) readOnce(ctx context.Context, query url.Values) (any, error) {
	key := query.Get("key")
	if key == "" {
		return view.Once{}, nil
	}
	result, err := h.c.InspectOnce(ctx, key)
	if err != nil {
		return view.Once{Key: key}, err
	}
	return view.OfOnce(key, result), nil
}
