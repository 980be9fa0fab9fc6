package fence

import (
	"context"
	"path/filepath"
	"testing"
)

// BenchmarkCheck is a check without anybody who is told of it, with Observed, and with Observe.
func BenchmarkCheck(b *testing.B) {
	var told int
	tell := func(context.Context, Checked) { told++ }
	file := func() *File {
		f, err := OpenFile(filepath.Join(b.TempDir(), "marks"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	memory, observed := NewMemory(), file()
	memory.Observe(tell)
	observed.Observe(tell)
	for _, bench := range []struct {
		name  string
		guard Guard
	}{
		{"memory", NewMemory()}, {"memory, Observed", Observed(NewMemory(), tell)}, {"memory, Observe", memory},
		{"file", file()}, {"file, Observed", Observed(file(), tell)}, {"file, Observe", observed},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.guard.Check(b.Context(), "orders", 7); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
