package tally

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

func TestAHistogramCountsUpToEachBound(t *testing.T) {
	t.Parallel()
	bounds := Bounds()
	if !slices.IsSorted(bounds[:]) {
		t.Fatalf("bounds %v", bounds)
	}
	var h Histogram
	for _, d := range []time.Duration{-time.Second, 0, bounds[0], bounds[0] + 1, bounds[len(bounds)-1], bounds[len(bounds)-1] + 1} {
		h.Observe(d)
	}
	upTo, count, sum := h.Read()
	want := [16]uint64{3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5}
	if upTo != want || count != 6 || sum != 2*bounds[0]+1+2*bounds[len(bounds)-1]+1 {
		t.Errorf("%v, %d, %v", upTo, count, sum)
	}
}

func TestTheBytesOfAConnectionAreCounted(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	var traffic Traffic
	counted := traffic.Conn(a)
	go func() {
		defer b.Close()
		_, _ = io.ReadFull(b, make([]byte, 3))
		_, _ = b.Write(make([]byte, 5))
	}()
	if _, err := counted.Write(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(counted); err != nil {
		t.Fatal(err)
	}
	if sent, received := traffic.Sent.Load(), traffic.Received.Load(); sent != 3 || received != 5 {
		t.Errorf("%d sent, %d received", sent, received)
	}
}
