//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// brisk is a single node that is soon ready, on a directory.
func brisk(dir string) holdfast.Config {
	return holdfast.Config{
		DataDir: dir, Logger: testkit.Quiet(),
		Timing: holdfast.Timing{Tick: time.Millisecond, Heartbeat: 5 * time.Millisecond, Election: 50 * time.Millisecond},
	}
}

// loner is a single process of the cluster that brisk is of: the default one.
func loner(t *testing.T) *proc {
	t.Helper()
	return procs(t, 1, func(cfg *processConfig) { cfg.Cluster = "" })[0]
}

// lived makes a directory in which a single process has worked, restarted and was killed, and
// returns what was acknowledged.
func lived(t *testing.T) (string, acknowledged) {
	t.Helper()
	p, told := loner(t), make(acknowledged)
	for range 3 {
		told.write(p, 15)
		p.kill()
		p.start()
		p.ready()
	}
	told.write(p, 15)
	p.kill()
	return p.cfg.DataDir, told
}

// verdict is what opening a damaged directory came to: nil if the node works and has all that was
// acknowledged, else the error that the user sees. It fails the test for anything else.
func verdict(t *testing.T, what, dir string, told acknowledged) error {
	t.Helper()
	began := time.Now()
	c, err := holdfast.Open(context.Background(), brisk(dir))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err = c.Ready(ctx); err != nil {
		if ctx.Err() != nil {
			t.Errorf("%s: neither ready nor refused after %v: %v", what, time.Since(began), err)
		}
		return err
	}
	for name, token := range told {
		info, err := c.Inspect(ctx, name)
		if err != nil {
			return err
		}
		if string(info.Value) != name || info.LastToken < token {
			t.Errorf("%s: it opens, and %s with token %d is forgotten: %+v", what, name, token, info)
		}
	}
	l, err := c.Acquire(ctx, "another")
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// damage is something that happens to one file.
type damage struct {
	what string
	do   func(file string) error
}

// damages are some of the ways in which a file of a size can be damaged.
func damages(size int64, random *rand.Rand) []damage {
	list := []damage{{"removed", os.Remove}}
	for _, to := range []int64{0, size / 2, size - 1, random.Int64N(size)} {
		list = append(list, damage{fmt.Sprintf("cut to %d of %d bytes", to, size), func(file string) error { return os.Truncate(file, to) }})
	}
	for range 4 {
		at, bit := random.Int64N(size), byte(1)<<random.IntN(8)
		list = append(list, damage{fmt.Sprintf("bit %#x of byte %d of %d flipped", bit, at, size), func(file string) error {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b[at] ^= bit
			return os.WriteFile(file, b, 0o600)
		}})
	}
	return list
}

func TestADamagedDirectoryOpensWholeOrIsRefusedWhateverTheDamage(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	whole, told := lived(t)
	random := rand.New(rand.NewPCG(7, 8))
	type trial struct {
		what, file string
		do         func(string) error
	}
	var trials []trial
	err := filepath.WalkDir(whole, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := filepath.Rel(whole, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Size() > 0 {
			for _, d := range damages(info.Size(), random) {
				trials = append(trials, trial{file + " " + d.what, file, d.do})
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	queue := make(chan trial, len(trials))
	for _, tr := range trials {
		queue <- tr
	}
	close(queue)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for tr := range queue {
				fmt.Println(tr.what) // the last ones, should the process end
				dir := copyDir(t, whole, filepath.Join(t.TempDir(), "node"))
				if err := tr.do(filepath.Join(dir, tr.file)); err != nil {
					t.Error(err)
				}
				err := verdict(t, tr.what, dir, told)
				if err == nil {
					continue
				}
				fmt.Println("\t", err)
				if !errors.Is(err, holdfast.ErrDamaged) && !errors.Is(err, holdfast.ErrIncompatible) || !strings.Contains(err.Error(), "the whole directory") && !strings.Contains(err.Error(), "delete the directory") {
					t.Errorf("%s: %v", tr.what, err)
				}
			}
		})
	}
	workers.Wait()
}

// works opens a node on a directory, has it work, and closes it.
func works(t *testing.T, dir string) {
	t.Helper()
	if err := verdict(t, dir, dir, nil); err != nil {
		t.Errorf("%s: %v", dir, err)
	}
}

// refuses wants a directory refused with an error that says so much.
func refuses(t *testing.T, cfg holdfast.Config, want error, says ...string) {
	t.Helper()
	c, err := holdfast.Open(t.Context(), cfg)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
		return
	}
	for _, word := range says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

func TestADirectoryThatIsNotItsNodesOrNotWholeIsRefused(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	scratch := t.TempDir()
	mine, other, older := filepath.Join(scratch, "mine"), filepath.Join(scratch, "other"), filepath.Join(scratch, "older")
	works(t, mine)
	works(t, other)
	copyDir(t, mine, older)
	works(t, mine)
	const delete = "delete the directory"
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  error
		says  string
	}{
		"without its log":      {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "raft")) }, holdfast.ErrDamaged, delete},
		"without its identity": {func(dir string) error { return os.Remove(filepath.Join(dir, "identity.json")) }, holdfast.ErrDamaged, "the whole directory"},
		"with another node's log": {func(dir string) error {
			return swap(dir, other, "raft")
		}, holdfast.ErrIncompatible, "belongs to node"},
		"with another node's log and mark": {func(dir string) error {
			return errors.Join(swap(dir, other, "raft"), swap(dir, other, "raft.mark"))
		}, holdfast.ErrIncompatible, "belongs to node"},
		"with another node's identity":    {func(dir string) error { return swap(dir, other, "identity.json") }, holdfast.ErrIncompatible, "belongs to node"},
		"with an older log":               {func(dir string) error { return swap(dir, older, "raft") }, holdfast.ErrDamaged, "before"},
		"with an older identity":          {func(dir string) error { return swap(dir, older, "identity.json") }, holdfast.ErrIncompatible, "older copy"},
		"with another node's stamp alone": {func(dir string) error { return swap(dir, other, "raft/dragonboat.ds") }, holdfast.ErrIncompatible, "belongs to node"},
	} {
		dir := copyDir(t, mine, filepath.Join(scratch, name))
		if err := tc.spoil(dir); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		refuses(t, brisk(dir), tc.want, tc.says)
	}
	works(t, mine)
}

// swap puts a part of another directory in its place in dir.
func swap(dir, from, part string) error {
	to := filepath.Join(dir, part)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Join(from, part)); err == nil && info.IsDir() {
		return os.CopyFS(to, os.DirFS(filepath.Join(from, part)))
	}
	b, err := os.ReadFile(filepath.Join(from, part))
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

func TestADirectoryInUseByAnotherProcessIsRefusedAndNamesIt(t *testing.T) {
	t.Parallel()
	p := loner(t)
	refuses(t, brisk(p.cfg.DataDir), holdfast.ErrDirInUse, fmt.Sprint(p.PID()))
	p.must(order{Op: "acquire", Name: "undisturbed", TTL: time.Minute})
	p.kill()
	works(t, p.cfg.DataDir)
}
