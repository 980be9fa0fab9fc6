package link

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"
	"time"
)

// agesOf are numbers of commands, each with how long ago it was applied.
func agesOf(list ...time.Duration) iter.Seq2[uint64, time.Duration] {
	return func(yield func(uint64, time.Duration) bool) {
		for pair := range slices.Chunk(list, 2) {
			if !yield(uint64(pair[0]), pair[1]) {
				return
			}
		}
	}
}

func TestAgesAreReadAsTheyWereInWholeMilliseconds(t *testing.T) {
	t.Parallel()
	got, err := ParseAges(AppendAges(nil, agesOf(7, time.Hour, 300, time.Second+time.Microsecond, math.MaxInt64, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var list []time.Duration
	for number, age := range got {
		list = append(list, time.Duration(number), age)
	}
	if want := []time.Duration{7, time.Hour, 300, time.Second, math.MaxInt64, 0}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	for range got {
		break // a reader that has seen enough
	}
}

func TestAgesOfMoreCommandsThanThereMayBeAreCutOff(t *testing.T) {
	t.Parallel()
	got, err := ParseAges(AppendAges(nil, func(yield func(uint64, time.Duration) bool) {
		for n := uint64(1); yield(n, 0); n++ {
		}
	}))
	n := 0
	for range got {
		n++
	}
	if n != agesMax || err != nil {
		t.Errorf("%d are read: %v", n, err)
	}
}

func TestMalformedAgesAreAnError(t *testing.T) {
	t.Parallel()
	for what, body := range map[string][]byte{
		"half a pair":         {7},
		"a number cut short":  {0x80},
		"the same twice":      {7, 1, 0, 1},
		"beyond all numbers":  append(bytes.Repeat([]byte{0xff}, 9), 1, 1, 7, 1),
		"older than anything": append([]byte{7}, append(bytes.Repeat([]byte{0xff}, 9), 1)...),
		"too many":            bytes.Repeat([]byte{1, 1}, agesMax+1),
	} {
		if _, err := ParseAges(body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
