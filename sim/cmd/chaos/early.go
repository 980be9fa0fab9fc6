//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	child "github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// The operator who recovers too early comes last, when the directories have been through all the
// faults: out of a copy of one, and with the lie that all processes are stopped, a second group
// begins while the first one lives. Two holders of one lock are valid then, one in each group, and
// only the tokens stop those of the former group.

// earlyLimit is for the recovery, and for each write after it.
const earlyLimit = 30 * time.Second

// recoverEarly recovers a group beside the one that lives.
func (f *fleet) recoverEarly(ctx context.Context) {
	if f.run.Diskless || len(f.run.Faults) > 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2+len(f.slots))*earlyLimit)
	defer cancel()
	highest := f.highest()
	from := f.near()
	f.demand(ctx, from.i, from.order, story.LateWritten) // the ledger still takes what the group that lives grants
	dir := filepath.Join(f.dir, "recovered")
	if err := from.copyTo(dir); err != nil {
		f.wrong(from.i, "copying its disk: %v", err)
		return
	}
	p, err := f.startRecovered(from, dir)
	if err != nil {
		f.wrong(-1, "starting a process on a recovered directory: %v", err)
		return
	}
	defer p.Kill()
	order := func(text string) { _ = p.Send(text) }
	if token := f.demand(ctx, -1, order, story.LateWritten); token <= highest {
		f.wrong(-1, "token %d of a recovered group, after %d of the group that it was copied from", token, highest)
	}
	for _, s := range f.slots {
		f.demand(ctx, s.i, s.order, story.LateStale)
	}
	f.demand(ctx, -1, order, story.LateWritten)
}

// near is a machine whose node has a replica.
func (f *fleet) near() *slot {
	all := f.inhabited()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[all[max(0, slices.IndexFunc(all, func(i int) bool { return !f.slots[i].status.Far }))]]
}

// highest is the highest token that a caller was granted.
func (f *fleet) highest() (token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lines {
		if l.Event != nil && l.Event.Kind == history.Granted {
			token = max(token, l.Event.Token)
		}
	}
	return token
}

// demand has a process write to the ledger under its lock, and returns the token. Another answer than
// the one that is wanted is a violation.
func (f *fleet) demand(ctx context.Context, node int, order func(string), want string) (token uint64) {
	text, token := f.write(ctx, node, order)
	if !strings.HasPrefix(text, want) {
		f.wrong(node, "a write beside a recovered group: %q, want %q", text, want)
	}
	return token
}

// write has a process write to the ledger under its lock, and returns its answer and its token.
func (f *fleet) write(ctx context.Context, node int, order func(string)) (text string, token uint64) {
	ctx, cancel := context.WithTimeout(ctx, earlyLimit)
	defer cancel()
	mark := f.mark()
	order(orderWrite)
	l, _ := f.seen(ctx, mark, func(l story.Line) bool { return l.Node == node && strings.HasPrefix(l.Text, story.LateWrite) })
	text, number, _ := strings.Cut(l.Text, "; token ")
	_, _ = fmt.Sscan(number, &token)
	return text, token
}

// startRecovered starts a process that recovers a directory and opens a node there. Its lines are of
// node -1.
func (f *fleet) startRecovered(from *slot, dir string) (*child.Process, error) {
	f.mu.Lock()
	told := from.plan()
	f.mu.Unlock()
	told.Recovers, told.Node, told.Data = true, -1, dir
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(f.dir, "log", "recovered.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := child.Self()
	cmd.Env = append(cmd.Env, processVar+"="+string(text))
	cmd.Stdout, cmd.Stderr = child.Lines(func(text []byte) {
		var l story.Line
		if err := json.Unmarshal(text, &l); err != nil {
			f.wrong(-1, "the recovered process says %q: %v", text, err)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.note(l, append(text, '\n'))
	}), log
	return child.Start(cmd)
}

// recovered is the life of a process on a recovered directory: it obeys orderWrite.
func (p *process) recovered() (err error) {
	secrets := p.plan.Secrets
	if _, err = holdfast.Recover(context.Background(), holdfast.RecoverConfig{
		DataDir: p.plan.Data, AllStopped: true, Unseen: true, Cluster: fleetName, Secrets: secrets,
	}); err != nil {
		return err
	}
	p.c, err = holdfast.Open(context.Background(), holdfast.Config{Cluster: fleetName, DataDir: p.plan.Data, Secrets: secrets, TTL: p.plan.TTL, MaxTTL: max(p.plan.TTL, p.plan.Long)})
	if err != nil {
		return err
	}
	defer p.c.Close()
	if p.resource, err = openResource(p.plan.Resource); err != nil {
		return err
	}
	defer p.resource.close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p.writeLate()
	}
	return nil
}

// writeLate writes to the guarded ledger under its lock, and notes whether the guard took that.
func (p *process) writeLate() {
	l, err := p.c.Acquire(workload.Within(earlyLimit), story.LedgerLock)
	if err != nil {
		p.note(story.LateWrite + err.Error())
		return
	}
	err = p.resource.guardedly(workload.Within(earlyLimit), l.Token(), func() error {
		n, err := last(p.resource.guarded)
		if err != nil {
			return err
		}
		_, err = p.resource.guarded.WriteString(story.Entry{N: n + 1, Based: n, Token: uint64(l.Token()), Node: p.plan.Node}.String())
		return err
	})
	text := story.LateWritten
	switch {
	case errors.Is(err, fence.ErrStale) && l.Valid():
		text = story.LateValid
	case errors.Is(err, fence.ErrStale):
		text = story.LateStale
	case err != nil:
		text = story.LateWrite + err.Error()
	}
	p.note(fmt.Sprintf("%s; token %d", text, l.Token()))
	_ = l.Release(workload.Within(earlyLimit))
}
