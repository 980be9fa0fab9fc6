//go:build unix

package processes_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// snapshot is a copy of a running process's volume, as storage makes it: at one moment.
func (p *proc) snapshot(to string) {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	defer p.signal(syscall.SIGCONT)
	copyDir(p.t, p.cfg.DataDir, to)
}

// A backup of volumes that are copied one after the other while the fleet works: the last one has grants of
// which the two others know nothing. These elect, and lead the third astray: it must not serve, nor be silent
// about it. Before, the raft leader of those that had gone on beyond it took it for well.
func TestOfThreeVolumesThatWereCopiedOneAfterTheOtherTheNewestIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		since int // locks that the two have granted before the third comes
		named func(newest *proc, others []*proc)
	}{
		"the two have done nothing since": {0, (*proc).endsWithBothWaysOut},
		"the two have gone on beyond it":  {60, (*proc).isIllToAll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir, told := procs(t, 3), t.TempDir(), make(acknowledged)
			for i, q := range p {
				told.write(p[0], 10)
				p[2].must(order{Op: "inspect", Name: "name0"}) // it has heard of all
				q.snapshot(filepath.Join(dir, fmt.Sprint(i)))
			}
			for _, q := range p {
				q.kill()
			}
			for i, q := range p {
				q.putBack(filepath.Join(dir, fmt.Sprint(i)))
			}
			older, newest := p[:2], p[2]
			for _, q := range older {
				q.start()
			}
			for _, q := range older {
				q.says("that two of them serve", func(s status) bool { return s.RaftLeader != "" })
			}
			for range tc.since {
				older[0].must(order{Op: "turn", Name: "of the two", TTL: time.Minute})
			}
			newest.start()
			tc.named(newest, older)
			for _, q := range older {
				q.must(order{Op: "turn", Name: "of the two", TTL: time.Minute})
			}
		})
	}
}

// endsWithBothWaysOut wants a process to end by itself, and to say what its operator can do.
func (p *proc) endsWithBothWaysOut([]*proc) {
	p.t.Helper()
	a := p.ask(order{Op: "end", Timeout: 30 * time.Second})
	for _, way := range []string{
		"delete the directory, and the node comes back as a new one", "unless a majority", "or stop all nodes, and recover the group from this directory",
	} {
		if !a.Foreign || !strings.Contains(a.Err, way) {
			p.t.Errorf("%s has what the others have forgotten, and ended with %q, which does not say %q", p.cfg.Name, a.Err, way)
		}
	}
}

// isIllToAll wants a process to call itself ill, and the raft leader to say why.
func (p *proc) isIllToAll(others []*proc) {
	p.t.Helper()
	id := p.must(order{Op: "status"}).Node
	ill := func(s status) bool {
		return !s.Ready && strings.HasPrefix(s.Waits, "no answer from the raft leader for ")
	}
	p.says("that it is ill", ill)
	leader, _ := byRole(p.t, others)
	leader.says("that it is ill", func(s status) bool {
		return strings.HasPrefix(s.sees(id), "it is heard, and has acknowledged nothing for ")
	})
	p.stays("ill", 5*time.Second, ill)
}
