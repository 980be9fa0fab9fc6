package consensus

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// sharing is a file system with the rule of Windows: what is open is neither renamed, nor replaced,
// nor removed. It notes who tried.
type sharing struct {
	vfs.FS
	mu    sync.Mutex
	files map[string]int // how often each is open
	tried []string
}

var errSharing = errors.New("the file is used by another process")

// shared is an open file or directory of it.
type shared struct {
	vfs.File
	once sync.Once
	fs   *sharing
	name string
}

func (f *shared) Close() error {
	f.once.Do(func() {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		if f.fs.files[f.name]--; f.fs.files[f.name] == 0 {
			delete(f.fs.files, f.name)
		}
	})
	return f.File.Close()
}

func (s *sharing) took(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name]++
	return &shared{File: f, fs: s, name: name}, nil
}

// idle refuses what has an open file at or below one of the names.
func (s *sharing) idle(what string, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		for open := range s.files {
			if open == name || strings.HasPrefix(open, name+"/") {
				s.tried = append(s.tried, fmt.Sprintf("%s %s while %s is open", what, name, open))
				return errSharing
			}
		}
	}
	return nil
}

func (s *sharing) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return s.took(name, f, err)
}

func (s *sharing) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, opts...)
	return s.took(name, f, err)
}

func (s *sharing) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	return s.took(name, f, err)
}

func (s *sharing) OpenForAppend(name string) (vfs.File, error) {
	f, err := s.FS.OpenForAppend(name)
	return s.took(name, f, err)
}

func (s *sharing) ReuseForWrite(from, to string) (vfs.File, error) {
	if err := s.idle("reuse", from, to); err != nil {
		return nil, err
	}
	f, err := s.FS.ReuseForWrite(from, to)
	return s.took(to, f, err)
}

func (s *sharing) Rename(from, to string) error {
	if err := s.idle("rename", from, to); err != nil {
		return err
	}
	return s.FS.Rename(from, to)
}

func (s *sharing) Remove(name string) error {
	if err := s.idle("remove", name); err != nil {
		return err
	}
	return s.FS.Remove(name)
}

func (s *sharing) RemoveAll(name string) error {
	if err := s.idle("remove all of", name); err != nil {
		return err
	}
	return s.FS.RemoveAll(name)
}

// The mark was renamed while it was open: on Windows no replica started.
func TestNoOpenFileIsRenamedOrRemoved(t *testing.T) {
	t.Parallel()
	fs := &sharing{FS: vfs.NewMem(), files: make(map[string]int)}
	b := newBench()
	b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 20, 5 }
	how, level := StartBootstrap, uint64(0)
	for range 3 {
		r := b.open(t, 1, fs, how)
		if how == StartBootstrap {
			r.propose(t, birth())
		}
		for range 60 { // snapshots, and the removal of old ones
			level++
			r.propose(t, fsm.Level{Level: level})
		}
		r.close(t)
		how = StartRestart
	}
	for _, what := range fs.tried {
		t.Error(what)
	}
	if len(fs.files) > 0 {
		t.Errorf("open after the end: %v", fs.files)
	}
}
