package fsm

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// An index that answers otherwise than its tree gives a lock that is gone, or hides one that is held.
func TestWhatAnIndexRemembersIsWhatItsTreeHas(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	indexes := []index[int]{newIndex[int]()}
	for step := range 200_000 {
		i := r.IntN(len(indexes))
		x, name := &indexes[i], strconv.Itoa(r.IntN(2*recentMax))
		switch r.IntN(4) {
		case 0:
			x.Set(name, &step)
		case 1:
			x.Delete(name)
		default:
			if want, _ := x.Get(name); x.find(name) != want {
				t.Fatalf("step %d: %q of index %d is %v, remembered as %v", step, name, i, want, x.find(name))
			}
		}
		if step%10_000 == 0 && len(indexes) < 4 {
			indexes = append(indexes, x.fork())
		}
		if len(x.recent) > recentMax {
			t.Fatalf("%d names are remembered", len(x.recent))
		}
	}
}
