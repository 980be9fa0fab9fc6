package fence

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
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

// A file of a later version was called damaged, with the advice to delete it: late writers pass without its marks.
func TestAFileOfANewerVersionIsNotDamagedAndToBeKept(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"holdfast-fence 2 00000000\n", "holdfast-fence 2\n", "holdfast-fence 10 sha256 00 11\n4711 x\n", "holdfast-fence 2 00",
	} {
		path := filepath.Join(t.TempDir(), "marks")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFile(path)
		if err == nil || errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "delete") || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "newer version of Holdfast wrote it") || !strings.Contains(err.Error(), "run that version") {
			t.Errorf("%q: %v", content, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q: the file is now %q (%v)", content, got, err)
		}
	}
}

// A guard that was open before the later version wrote the file admits nothing either.
func TestAFileThatANewerVersionWritesUnderTheGuardAdmitsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := errors.Join(os.WriteFile(path+".new", []byte("holdfast-fence 2 00000000\n"), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 10); !errors.Is(err, errNewer) || errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
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
