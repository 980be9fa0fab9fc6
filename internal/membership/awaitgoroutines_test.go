package membership

import (
	"testing"
	"testing/synctest"
	"time"
)

// In a process without an idle core a look at the profile took 4 s. Close looked before the goroutines
// had a chance to end, rested four times as long, and took 21 s.
func TestALookThatTakesLongDelaysCloseByThatLook(t *testing.T) {
	t.Parallel()
	const look = 4 * time.Second
	for _, c := range []struct {
		name  string
		ends  time.Duration // of the goroutines, after the start
		looks int
		most  time.Duration
	}{
		{"they end when they are told", 500 * time.Microsecond, 1, look + awaitPause},
		{"they end during the first look", look, 2, 2*look + awaitRest + awaitPause},
		{"they never end", time.Hour, 4, awaitLimit + look + awaitRest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, looks := time.Now(), 0
				err := awaitEnd(func() bool {
					looks++
					running := time.Since(began) < c.ends // a profile shows what runs when it begins
					time.Sleep(look)
					return running
				})
				if took := time.Since(began); looks != c.looks || took > c.most || (err != nil) != (c.ends > awaitLimit) {
					t.Errorf("%d looks in %v: %v; want %d in %v", looks, took, err, c.looks, c.most)
				}
			})
		})
	}
}

// A quick look costs a host with many goroutines no more than a fifth of a core.
func TestLooksLeaveTheHostFourFifthsOfACore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const look = 200 * time.Millisecond // at some 100,000 goroutines
		began, looked := time.Now(), time.Duration(0)
		_ = awaitEnd(func() bool {
			time.Sleep(look)
			looked += look
			return time.Since(began) < 10*time.Second
		})
		if took := time.Since(began); looked > took/4 {
			t.Errorf("looks took %v of %v", looked, took)
		}
	})
}
