//go:build unix

package processes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// copyDir makes to a copy of a directory.
func copyDir(t testing.TB, from, to string) string {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// putBack replaces a process's data directory by a copy of it.
func (p *proc) putBack(from string) {
	p.t.Helper()
	if err := os.RemoveAll(p.cfg.DataDir); err != nil {
		p.t.Fatal(err)
	}
	copyDir(p.t, from, p.cfg.DataDir)
}

// acknowledged is what a test was told that it has.
type acknowledged map[string]holdfast.Token

// write has p acquire locks and write values to them.
func (a acknowledged) write(p *proc, n int) {
	p.t.Helper()
	for range n {
		name := fmt.Sprint("name", len(a))
		a[name] = p.must(order{Op: "acquire", Name: name, TTL: time.Hour}).Token
		p.must(order{Op: "set", Name: name, Value: []byte(name)})
	}
}

// check wants p to see all of it.
func (a acknowledged) check(p *proc) {
	p.t.Helper()
	for name, token := range a {
		info := p.must(order{Op: "inspect", Name: name}).Info
		if string(info.Value) != name || info.LastToken < token {
			p.t.Errorf("%s was granted with token %d and written, and now is %+v", name, token, info)
		}
	}
}

// refused wants p's node to end by itself because its directory is an older copy, and to say what
// to do.
func (p *proc) refused() {
	p.t.Helper()
	a := p.ask(order{Op: "end", Timeout: 30 * time.Second})
	if !a.Foreign || !strings.Contains(a.Err, "older copy") || !strings.Contains(a.Err, "delete the directory") {
		p.t.Errorf("%s runs on an older copy of its directory, and says %q", p.cfg.Name, a.Err)
	}
}

// anew has p begin as a new node. It can work long before it takes the place of the old one.
func (p *proc) anew(old string) {
	p.t.Helper()
	p.kill()
	if err := os.RemoveAll(p.cfg.DataDir); err != nil {
		p.t.Fatal(err)
	}
	p.start()
	if node := p.must(order{Op: "inspect", Name: "name0", Timeout: 55 * time.Second}).Node; node == old {
		p.t.Errorf("%s came back as %s", p.cfg.Name, node)
	}
}

// The whole story: the two nodes that acknowledged are away; one of them comes back without what it
// had acknowledged, and meets the one that never had it. Together they are a majority.
func TestANodeWhoseDirectoryWasPutBackCannotMakeAMajorityForget(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	told := make(acknowledged)
	told.write(p[0], 5)
	p[1].kill()
	backup := copyDir(t, p[1].cfg.DataDir, filepath.Join(t.TempDir(), "backup"))
	p[1].start()
	node := p[1].must(order{Op: "ready", Timeout: 30 * time.Second}).Node
	told.check(p[2]) // it has heard of p[1]'s new process

	p[2].kill()
	told.write(p[0], 20)
	p[0].kill()
	p[1].kill()
	p[1].putBack(backup)
	p[1].start()
	p[2].start()
	p[1].refused()
	if a := p[2].ask(order{Op: "acquire", Name: "name24", Timeout: 2 * time.Second, TTL: time.Hour}); !a.NoQuorum {
		t.Errorf("a majority has formed that never heard of 20 acknowledged grants: %q, token %d", a.Err, a.Token)
	}

	p[0].start()
	for _, q := range []*proc{p[0], p[2]} {
		q.ready()
		told.check(q)
	}
	p[1].anew(node)
	told.check(p[1])
}

// A copy of a running process's directory counts as many starts as the process: only what the
// others have heard from it tells that it is older.
func TestACopyOfARunningNodesDirectoryIsRefusedWhenItIsPutBack(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	told := make(acknowledged)
	told.write(p[0], 3)
	node := p[1].must(order{Op: "ready"}).Node
	p[1].signal(syscall.SIGSTOP)
	backup := copyDir(t, p[1].cfg.DataDir, filepath.Join(t.TempDir(), "backup"))
	p[1].signal(syscall.SIGCONT)
	told.write(p[1], 10)
	p[1].kill()
	p[1].putBack(backup)
	p[1].start()
	p[1].refused()
	told.check(p[0])
	p[1].anew(node)
	told.check(p[1])
}

func TestOfTwoProcessesOnCopiesOfADirectoryOneIsRefusedAndTheFleetGoesOn(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	told := make(acknowledged)
	told.write(p[0], 3)
	p[1].signal(syscall.SIGSTOP)
	twin := &proc{t: t, cfg: p[1].cfg}
	twin.cfg.Name, twin.cfg.DataDir = "twin", copyDir(t, p[1].cfg.DataDir, filepath.Join(t.TempDir(), "twin"))
	p[1].signal(syscall.SIGCONT)
	told.write(p[1], 3)
	twin.start()
	twin.refused()
	told.write(p[0], 3)
	told.check(p[2])
	twin.kill()
	// A node that has not heard of what the twin forgot took it for the node's next process, which the
	// node's real next process is no more: the one after that is.
	for try := 1; ; try++ {
		p[1].kill()
		p[1].start()
		a := p[1].ask(order{Op: "ready", Timeout: 30 * time.Second})
		if a.Err == "" {
			break
		}
		if try == 5 {
			t.Fatalf("the original does not come back: %s", a.Err)
		}
	}
	told.check(p[1])
}
