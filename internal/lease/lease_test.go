package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"pgregory.net/rapid"
)

func TestEndOfValidityIsTTLLessDriftAndMargin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ttl   time.Duration
		drift float64
		want  time.Duration
	}{
		{100 * time.Millisecond, 0.01, 89 * time.Millisecond},
		{15 * time.Second, 0.01, 14800 * time.Millisecond},
		{24 * time.Hour, 0, 24*time.Hour - lease.MarginMax},
		{time.Second, 0.5, 480 * time.Millisecond},
		{time.Second, 0.999, 0},
		{0, 0.01, 0},
		{-time.Second, 0.01, 0},
		{time.Second, 1, 0},
		{time.Second, 7, 0},
		{time.Second, -0.1, 0},
		{time.Second, math.NaN(), 0},
	} {
		if got := lease.ValidUntil(1000, c.ttl, c.drift); got != lease.Instant(1000+c.want) {
			t.Errorf("ValidUntil(1000, %v, %v) = 1000+%v, want 1000+%v", c.ttl, c.drift, time.Duration(got-1000), c.want)
		}
	}
}

func TestInstantsDoNotOverflow(t *testing.T) {
	t.Parallel()
	if got := (lease.Never - 5).Add(time.Hour); got != lease.Never {
		t.Errorf("near the end: %d", got)
	}
	if got := lease.Instant(math.MinInt64 + 5).Add(-time.Hour); got != math.MinInt64 {
		t.Errorf("near the beginning: %d", got)
	}
	if got := lease.Never.Sub(-5); got != math.MaxInt64 {
		t.Errorf("difference beyond the range: %d", got)
	}
	if got := lease.Instant(math.MinInt64).Sub(5); got != math.MinInt64 {
		t.Errorf("difference below the range: %d", got)
	}
}

// The one inequality that everything rests on: for clock rates within the bound, the holder's
// end of validity in true time is before the TTL on any replica's clock.
func TestHolderStopsBeforeAnyReplicaWithinTheDriftBoundCouldExpireIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drift := rapid.Float64Range(0, 0.5).Draw(t, "drift")
		holder := rapid.SampledFrom([]float64{1 - drift/2, 1, 1 + drift/2}).Draw(t, "holder's rate")
		replica := rapid.SampledFrom([]float64{1 - drift/2, 1, 1 + drift/2}).Draw(t, "replica's rate")
		ttl := time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(24*time.Hour)).Draw(t, "ttl"))

		validUntil := float64(lease.ValidUntil(0, ttl, drift)) / holder
		expiry := float64(ttl) / replica
		if validUntil+float64(lease.Margin(ttl))/2 > expiry {
			t.Fatalf("holder acts until %v, replica expires at %v of true time", time.Duration(validUntil), time.Duration(expiry))
		}
	})
}
