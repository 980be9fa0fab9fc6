//go:build unix

package versions_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
)

const (
	// pinned is the commit of level 1 that this version runs beside.
	pinned   = "2c6e07c557f92434a2edd73ed6d6011455b824b7"
	workerIn = "sim/versions/worker"
	patience = time.Minute
)

// build compiles the worker in a tree.
func build(t *testing.T, tree, name string, flags ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", program}, flags...), "./"+workerIn)...)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return program
}

// earlier is the tree of the pinned commit, with the worker of this one.
func earlier(t *testing.T, root string) (tree string) {
	t.Helper()
	if err := exec.Command("git", "-C", root, "cat-file", "-e", pinned+"^{commit}").Run(); err != nil {
		t.Skipf("the history of this clone lacks %s (%v): the version before is not tested", pinned, err)
	}
	tree = t.TempDir()
	archive := filepath.Join(t.TempDir(), "tree.tar")
	for _, args := range [][]string{
		{"git", "-C", root, "archive", "-o", archive, pinned}, {"tar", "-xf", archive, "-C", tree},
		{"mkdir", "-p", filepath.Join(tree, workerIn)},
		{"cp", filepath.Join(root, workerIn, "main.go"), filepath.Join(tree, workerIn)},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return tree
}

// fleet is the processes of a test.
type fleet struct {
	t       *testing.T
	dir     string
	nodes   [3]*worker
	killed  map[string]bool // lives that were
	started int
}

// worker is one process.
type worker struct {
	*process.Process
	life  string
	news  *sync.Cond
	said  []string
	beats int
	level string
	leads bool
}

// start runs a program as a node, or as a client.
func (f *fleet) start(program, name string, client bool) *worker {
	f.t.Helper()
	args := []string{"-name", name, "-peers", filepath.Join(f.dir, "peers"), "-journal", filepath.Join(f.dir, "journal")}
	if !client {
		args = append(args, "-dir", filepath.Join(f.dir, name))
	}
	w := &worker{news: sync.NewCond(new(sync.Mutex))}
	cmd := exec.Command(program, args...)
	cmd.Stdout = process.Lines(w.hear)
	log, err := os.Create(filepath.Join(f.dir, fmt.Sprintf("%s.%d.log", name, f.started)))
	if err != nil {
		f.t.Fatal(err)
	}
	f.started++
	defer log.Close()
	cmd.Stderr = log
	if w.Process, err = process.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	w.life = fmt.Sprint(name, "#", w.PID())
	f.t.Cleanup(w.Kill)
	go func() {
		<-w.Done()
		w.hear([]byte("over"))
	}()
	return w
}

func (w *worker) hear(line []byte) {
	w.news.L.Lock()
	defer w.news.L.Unlock()
	w.said = append(w.said, string(line))
	switch {
	case strings.HasPrefix(w.said[len(w.said)-1], "beat "):
		w.beats++
	case strings.HasPrefix(w.said[len(w.said)-1], "level "):
		_, _ = fmt.Sscanf(string(line), "level %s %t", &w.level, &w.leads)
	}
	w.news.Broadcast()
}

// until waits for what a worker says.
func (f *fleet) until(w *worker, what string, ok func() bool) {
	f.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		w.news.L.Lock()
		defer w.news.L.Unlock()
		late = true
		w.news.Broadcast()
	})
	defer timer.Stop()
	w.news.L.Lock()
	defer w.news.L.Unlock()
	for !ok() {
		over := len(w.said) > 0 && w.said[len(w.said)-1] == "over"
		if late || over {
			f.t.Fatalf("%s: not %s: it said %q", w.life, what, w.said[max(0, len(w.said)-20):])
		}
		w.news.Wait()
	}
}

func (f *fleet) ready(w *worker) {
	f.t.Helper()
	f.until(w, "ready", func() bool { return slices.Contains(w.said, "ready") })
}

// stop ends processes as services end them, at one moment, and looks at what they said.
func (f *fleet) stop(all ...*worker) {
	f.t.Helper()
	var ending sync.WaitGroup
	for _, w := range all {
		ending.Go(func() {
			if err := w.Stop(patience); err != nil {
				f.t.Errorf("%s ended with %v", w.life, err)
			}
		})
	}
	ending.Wait()
	for _, w := range all {
		f.blameless(w)
	}
}

func (f *fleet) blameless(w *worker) {
	f.t.Helper()
	w.news.L.Lock()
	defer w.news.L.Unlock()
	for _, line := range w.said {
		if strings.HasPrefix(line, "fault ") || strings.HasPrefix(line, "refused ") {
			f.t.Errorf("%s: %s", w.life, line)
		}
	}
}

// works waits until each process has gone on: twenty grants.
func (f *fleet) works(all ...*worker) {
	f.t.Helper()
	for _, w := range all {
		w.news.L.Lock()
		from := w.beats
		w.news.L.Unlock()
		f.until(w, "at work", func() bool { return w.beats >= from+2 })
	}
}

// roll gives nodes another version: each ends, and begins again on its directory.
func (f *fleet) roll(program string, nodes ...int) {
	f.t.Helper()
	var ending []*worker
	for _, i := range nodes {
		if f.nodes[i] != nil {
			ending = append(ending, f.nodes[i])
		}
	}
	f.stop(ending...)
	for _, i := range nodes {
		f.nodes[i] = f.start(program, fmt.Sprint("n", i), false)
	}
	for _, i := range nodes {
		f.ready(f.nodes[i])
	}
	f.works(f.nodes[:]...)
}

// at waits until all nodes have seen a level.
func (f *fleet) at(level string) {
	f.t.Helper()
	for _, w := range f.nodes {
		f.until(w, "at level "+level, func() bool { return w.level == level })
	}
}

// A library in forty services gets another version month by month, and back where it disappoints: beside
// nodes and clients of the version before, with no lease lost, no command refused, nothing forgotten.
func TestVersionsRunBesideEachOtherForwardAndBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds three versions of the library")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	before := build(t, earlier(t, root), "before")
	now, next := build(t, root, "now"), build(t, root, "next", "-tags", "holdfast_next")
	f := &fleet{t: t, dir: t.TempDir(), killed: make(map[string]bool)}
	t.Cleanup(func() {
		if t.Failed() {
			f.logs()
		}
	})

	f.roll(before, 0, 1, 2)
	older := f.start(before, "older", true) // lives through all of level 1
	f.ready(older)
	for _, program := range []string{now, before} { // forward and back, one by one
		for i := range f.nodes {
			f.roll(program, i)
		}
		f.works(older)
	}
	client := f.start(now, "client", true) // on replicas of before, which know less than it asks
	f.ready(client)
	f.works(client)
	for _, program := range []string{now, before, now} { // in threes: what one version has on its disks the other reads
		f.roll(program, 0, 1, 2)
	}
	f.works(older, client)
	f.at("1")

	for i := range f.nodes {
		f.roll(next, i)
	}
	f.works(older, client)
	f.at("1") // a client does not know level 2, and has sessions
	f.stop(older)
	f.at("2") // the other one does not know level 3
	f.stop(client)
	leader := f.rising()
	f.killed[leader.life] = true
	leader.Kill()
	f.blameless(leader)
	i := slices.Index(f.nodes[:], leader)
	f.nodes[i] = f.start(next, fmt.Sprint("n", i), false)
	f.ready(f.nodes[i])
	f.at("3")
	f.works(f.nodes[:]...)

	f.stop(f.nodes[0]) // there is no way back from a level
	refused := f.start(now, "n0", false)
	f.until(refused, "refused", func() bool {
		return slices.ContainsFunc(refused.said, func(line string) bool {
			return strings.HasPrefix(line, "refused ") && strings.Contains(line, "feature level 2") && strings.Contains(line, "level 3")
		})
	})
	<-refused.Done()
	f.nodes[0] = nil
	f.roll(next, 0)
	f.stop(f.nodes[:]...)
	f.check()
}

// rising waits until the raft leader is the first to see level 3, and returns it.
func (f *fleet) rising() *worker {
	f.t.Helper()
	first := make(chan *worker, len(f.nodes))
	for _, w := range f.nodes {
		go func() {
			w.news.L.Lock()
			defer w.news.L.Unlock()
			for !(w.level == "3" && w.leads) && !slices.Contains(w.said, "over") {
				w.news.Wait()
			}
			first <- w
		}()
	}
	select {
	case w := <-first:
		return w
	case <-time.After(patience):
		f.t.Fatal("no raft leader has seen level 3")
		return nil
	}
}

// logs prints what the processes logged.
func (f *fleet) logs() {
	paths, _ := filepath.Glob(filepath.Join(f.dir, "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		f.t.Logf("%s:\n%s", filepath.Base(path), text)
	}
}

// check reads the journal.
func (f *fleet) check() {
	text, err := os.ReadFile(filepath.Join(f.dir, "journal"))
	if err != nil {
		f.t.Fatal(err)
	}
	j := journal{killed: f.killed, holder: make(map[string]string), last: make(map[string]uint64), values: make(map[string]uint64), finished: make(map[string]bool)}
	lines := 0
	for line := range strings.Lines(string(text)) {
		lines++
		if fault := j.next(strings.TrimSpace(line)); fault != "" {
			f.t.Errorf("line %d of the journal, %q: %s", lines, strings.TrimSpace(line), fault)
		}
	}
	f.t.Logf("%d lines, %d keys finished, values up to %d", lines, len(j.finished), j.values["lock0"])
}
