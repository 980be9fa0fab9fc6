package history

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Histogram counts durations in buckets that double from a millisecond on. The zero value is empty.
type Histogram struct {
	Buckets [20]uint64 // below 1ms, 2ms, 4ms, …
	Count   uint64
	Max     time.Duration
}

// Add counts one duration; what is below zero counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(0, d)
	h.Buckets[min(bits.Len64(uint64(d/time.Millisecond)), len(h.Buckets)-1)]++
	h.Count++
	h.Max = max(h.Max, d)
}

// Merge adds what another one counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
	h.Count += o.Count
	h.Max = max(h.Max, o.Max)
}

// String is one line: "below 1ms: 3, below 16ms: 2; max 12ms".
func (h *Histogram) String() string {
	var parts []string
	for i, n := range h.Buckets {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("below %v: %d", time.Millisecond<<i, n))
		}
	}
	return fmt.Sprintf("%s; max %v", strings.Join(parts, ", "), h.Max.Round(time.Microsecond))
}
