package clock

import (
	"testing"
)

func TestLinuxSaysHowLongItSlept(t *testing.T) {
	t.Parallel()
	first, ok := suspended()
	if !ok || first < 0 {
		t.Fatalf("got %v, %v", first, ok)
	}
	// The error of one answer is that of two readings in a row, far below what settling looks for.
	if second, ok := suspended(); !ok || (second-first).Abs() > parting {
		t.Errorf("%v, then %v", first, second)
	}
}
