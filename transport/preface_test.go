package transport

import (
	"errors"
	"testing"
)

func TestEveryKindSurvivesItsPreface(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{KindRaft, KindGossip, KindHTTP, KindProbe, KindClient} {
		b := appendPreface(nil, kind)
		if got, err := parsePreface([prefaceSize]byte(b)); got != kind || err != nil {
			t.Errorf("%v came out as %v, %v", kind, got, err)
		}
	}
}

func TestPrefaceSaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]error{
		"GET ": errStrayHTTP, "HEAD": errStrayHTTP, "PRI ": errStrayHTTP,
		"HF\x02\x01": errNotHoldfast, "HF\x01\x00": errNotHoldfast, "HF\x01\x09": errNotHoldfast, "\x16\x03\x01\x00": errNotHoldfast,
	} {
		if _, err := parsePreface([prefaceSize]byte([]byte(said))); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", said, err, want)
		}
	}
}

func FuzzPreface(f *testing.F) {
	for _, seed := range []string{"HF\x01\x01", "HF\x01\x03", "HF\x01\x04", "HF\x00\x01", "HEAD", "GET ", "\x16\x03\x01\x02"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < prefaceSize {
			return
		}
		said := [prefaceSize]byte(b[:prefaceSize])
		kind, err := parsePreface(said)
		if (err == nil) != kind.valid() {
			t.Fatalf("% x: %v, %v", said, kind, err)
		}
		if err == nil && [prefaceSize]byte(appendPreface(nil, kind)) != said {
			t.Fatalf("% x is taken for the preface of %v", said, kind)
		}
	})
}
