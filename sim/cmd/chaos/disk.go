//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
)

const (
	probeEvery = 100 * time.Millisecond
	slowDisk   = 250 * time.Millisecond // a sync that takes so long stops whoever waits for it
	parkLimit  = 8 * time.Second        // for a node to notice that its disk is full
	fillerFile = "filler"
)

func (s *slot) wipe() {
	if err := os.RemoveAll(s.disk()); err != nil {
		s.f.wrong(s.i, "wiping: %v", err)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.proof, s.forked = false, false
}

// copyDisk puts a copy of what the node of another slot has stored in the place of what there is
// here. No process runs here, and that of the other does nothing meanwhile: a copy is of one
// moment, as that of a volume is.
func (s *slot) copyDisk(from *slot) {
	s.wipe()
	if err := os.CopyFS(s.disk(), os.DirFS(from.disk())); err != nil {
		s.f.wrong(s.i, "copying the disk of node %d: %v", from.i, err)
	}
}

// fillDisk fills the small disk of a node until it parks, makes room again, and restarts the
// process.
func (x *nemesis) fillDisk(ctx context.Context) {
	var candidates []int
	for i := range x.disks {
		candidates = append(candidates, i)
	}
	slices.Sort(candidates)
	i := candidates[x.r.IntN(len(candidates))]
	x.one(ctx, "full disk", i, func(ctx context.Context, s *slot) {
		f := x.f
		x.sick(s, true)
		mark := f.mark()
		filler := filepath.Join(s.data, fillerFile)
		f.add(story.Line{Kind: story.KindNote, Node: i, Text: "disk full: " + fill(filler).Error()})
		noticing, cancel := context.WithTimeout(ctx, parkLimit)
		defer cancel()
		if _, ok := f.seen(noticing, mark, func(l story.Line) bool { return l.Kind == story.KindDone && l.Node == i }); !ok {
			f.add(story.Line{Kind: story.KindNote, Node: i, Text: "the node did not park while its disk was full"})
		}
		if err := os.Remove(filler); err != nil {
			f.wrong(i, "making room: %v", err)
		}
		s.stop(orderClose)
		x.sick(s, false)
		x.begin(s)
	})
}

func (x *nemesis) sick(s *slot, ill bool) {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	s.ill = ill
}

func fill(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; ; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			if size == 1 {
				return err
			}
			size = max(1, size/16)
		}
	}
}

// probeDisk notices when the disk that all processes share stands still.
func (f *fleet) probeDisk(ctx context.Context) {
	file, err := os.Create(filepath.Join(f.dir, "probe"))
	if err != nil {
		f.wrong(-1, "probing the disk: %v", err)
		return
	}
	defer file.Close()
	for wait(ctx, probeEvery) {
		from := f.now()
		_, err := file.WriteAt([]byte(fmt.Sprintf("%20d", from)), 0)
		if err == nil {
			err = file.Sync()
		}
		if err != nil {
			f.wrong(-1, "probing the disk: %v", err)
			return
		}
		if to := f.now(); to-from > slowDisk {
			f.add(story.Line{Kind: story.KindStall, Node: -1, From: from, To: to})
		}
	}
}
