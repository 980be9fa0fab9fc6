//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// The shared resource, twice: a ledger whose writes a guard admits by their tokens, and its twin
// that trusts the lock alone. Both are used in the same way by the same holders, who do not look
// whether they still hold the lock before they write. Where a holder was stopped for longer than
// its lease lives, the twin loses an update and the guarded one must not: the twin shows that the
// run could have seen it.

const (
	resourceDir   = "resource" // of the run's directory
	guardedFile   = "guarded.ledger"
	unguardedFile = "unguarded.ledger"
	guardFile     = "guarded.mark"
	resourceLimit = 2 * time.Second // for the ledger's own lock, which a stopped process may have
)

type resource struct {
	busy               chan struct{} // the file's lock does not tell callers of one process apart
	guard              *fence.File
	guarded, unguarded *os.File
}

func openResource(dir string) (*resource, error) {
	guard, err := fence.OpenFile(filepath.Join(dir, guardFile))
	if err != nil {
		return nil, err
	}
	r := &resource{guard: guard, busy: make(chan struct{}, 1)}
	for name, file := range map[string]**os.File{guardedFile: &r.guarded, unguardedFile: &r.unguarded} {
		if *file, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *resource) close() {
	_ = r.guard.Close()
	for _, f := range []*os.File{r.guarded, r.unguarded} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func last(f *os.File) (uint64, error) {
	const lineMax = 100
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(size, lineMax))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	line := ""
	for i, n := len(tail)-2, len(tail); n > 0; i-- {
		if i < 0 || tail[i] == '\n' {
			line = string(tail[i+1:])
			break
		}
	}
	if line == "" {
		return 0, nil
	}
	var n uint64
	_, err = fmt.Sscan(line, &n)
	return n, err
}

// guardedly does something with the guarded ledger while nobody else does, if the guard admits the
// token.
func (r *resource) guardedly(ctx context.Context, token fence.Token, do func() error) error {
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	fd := int(r.guarded.Fd())
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer unix.Flock(fd, unix.LOCK_UN)
	if err := r.guard.Check(ctx, "ledger", token); err != nil {
		return err
	}
	return do()
}

func (p *process) useResource(l *holdfast.Lease, r *rand.Rand) {
	token, node := l.Token(), p.plan.Node
	var guarded uint64
	err := p.resource.guardedly(workload.Within(resourceLimit), token, func() (err error) {
		guarded, err = last(p.resource.guarded)
		return err
	})
	if err != nil {
		p.unusable("reading", err)
		return
	}
	unguarded, err := last(p.resource.unguarded)
	if err != nil {
		p.unusable("reading", err)
		return
	}
	p.add(p.Now(), story.Line{Kind: story.KindRead})
	time.Sleep(workload.Think(r)) // and does not look at the lease again

	e := story.Entry{N: unguarded + 1, Based: unguarded, Token: uint64(token), Node: node}
	if _, err := p.resource.unguarded.WriteString(e.String()); err != nil {
		p.unusable("writing", err)
	}
	from := p.Now()
	err = p.resource.guardedly(workload.Within(resourceLimit), token, func() error {
		e := story.Entry{N: guarded + 1, Based: guarded, Token: uint64(token), Node: node}
		_, err := p.resource.guarded.WriteString(e.String())
		return err
	})
	line := story.Line{Kind: story.KindWrite}
	if err != nil {
		line.Text = p.unusable("writing", err)
	}
	p.add(from, line)
}

// unusable says in a word why the ledger could not be used, and complains where nobody would expect
// it.
func (p *process) unusable(what string, err error) string {
	switch {
	case errors.Is(err, fence.ErrStale):
		return story.Stale
	case errors.Is(err, context.DeadlineExceeded):
		return "busy" // a stopped process has the file's own lock
	}
	p.wrong("%s the ledger: %v", what, err)
	return "failed"
}
