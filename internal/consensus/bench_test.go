package consensus

import (
	"testing"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// benchTrio is three replicas over TCP, each on a disk of dir(n).
func benchTrio(b *testing.B, fs func(n int) (vfs.FS, string)) *replica {
	w := newBench()
	w.network, w.bind = transport.TCP(), func(int) string { return "127.0.0.1:0" }
	open := func(n int, how Start) *replica {
		under, dir := fs(n)
		r, err := w.tryIn(n, under, dir, how)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _, _ = r.Group.Close(), r.endpoint.Close() })
		return r
	}
	first := open(1, StartBootstrap)
	cmd := fsm.Encode(birth())
	if _, err := insist(b.Context(), first.Group, cmd); err != nil {
		b.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		for first.AddStandby(b.Context(), nodeID(n), ReplicaID(nodeID(n)), basis(first)) != nil {
			pause()
		}
		joined := open(n, StartJoin)
		for joined.Barrier(b.Context()) != nil {
			pause()
		}
		for first.Promote(b.Context(), nodeID(n), basis(first)) != nil {
			pause()
		}
	}
	return first
}

func benchPropose(b *testing.B, r *replica) {
	cmd := fsm.Encode(fsm.Level{Level: 1})
	b.Run("one caller", func(b *testing.B) {
		for b.Loop() {
			if _, err := insist(b.Context(), r.Group, cmd); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("many callers", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := insist(b.Context(), r.Group, cmd); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("barrier", func(b *testing.B) {
		for b.Loop() {
			if err := r.Barrier(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkThreeReplicasOnDisk(b *testing.B) {
	benchPropose(b, benchTrio(b, func(int) (vfs.FS, string) { return vfs.Default, b.TempDir() }))
}

func BenchmarkThreeReplicasInMemory(b *testing.B) {
	benchPropose(b, benchTrio(b, func(int) (vfs.FS, string) { return vfs.NewMem(), "/raft" }))
}
