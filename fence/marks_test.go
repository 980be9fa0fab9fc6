package fence

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

func TestMarksAreReadBackWhateverTheResourceIsCalled(t *testing.T) {
	t.Parallel()
	want := map[string]Token{"": 1, "a b": 2, "line\nbreak": 3, "\xff\xfe": 4, `"quoted"`: TokenMax, "日本": 6}
	got, err := decode(encode(want))
	if err != nil || !maps.Equal(got, want) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestEveryDamageOfTheFileIsNoticed(t *testing.T) {
	t.Parallel()
	whole := encode(map[string]Token{"invoices": 4711, "orders": 12})
	for cut := range whole {
		if _, err := decode(whole[:cut]); err == nil {
			t.Errorf("cut to %d bytes: no error", cut)
		}
	}
	for i := range whole {
		for _, flip := range []byte{1, 0x10, 0x80} {
			broken := bytes.Clone(whole)
			broken[i] ^= flip
			if marks, err := decode(broken); err == nil && !bytes.Equal(encode(marks), whole) {
				t.Errorf("byte %d flipped: read as %v", i, marks)
			}
		}
	}
}

func TestAFileOfANewerVersionSaysSo(t *testing.T) {
	t.Parallel()
	_, err := decode([]byte("holdfast-fence 2 00000000\n"))
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Fatal(err)
	}
}

func FuzzMarks(f *testing.F) {
	f.Add(encode(nil))
	f.Add(encode(map[string]Token{"invoices": 4711, "\xff": 12}))
	f.Fuzz(func(t *testing.T, data []byte) {
		marks, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(encode(marks))
		if err != nil || !maps.Equal(marks, again) {
			t.Fatalf("%v came back as %v (%v)", marks, again, err)
		}
	})
}
