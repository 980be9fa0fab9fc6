//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/report"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	recordFile = "record.jsonl"
	textFile   = "report.txt"
	mergedFile = "history.json" // for sim/porcupine, which has no use for what watchers are told
	healFrom   = time.Minute    // a run of that length waits until the fleet is whole again
	serveAgain = 5 * time.Second
	smallCount = 2 // nodes on small disks, where the machine allows it
)

func play(ctx context.Context, run story.Run, dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	f, err := newFleet(chosen(run), dir)
	if err != nil {
		return err
	}
	small := smallCount
	if f.run.Diskless {
		small = 0
	}
	disks, unmount, err := f.smallDisks(small)
	if err != nil {
		fmt.Println("skipped:", err)
		f.run.Skipped = append(f.run.Skipped, err.Error())
	}
	f.add(story.Line{Kind: story.KindRun, Node: -1, Run: &f.run})
	defer func() { err = errors.Join(err, unmount()) }()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { f.probeDisk(ctx) })
	err = f.play(ctx, disks)
	err = errors.Join(err, ctx.Err()) // an interrupted run shows nothing
	cancel()
	watching.Wait()
	return errors.Join(err, f.end())
}

// chosen is a run with all that its seed decides about the fleet.
func chosen(run story.Run) story.Run {
	run.Voters = []int{3, 3, 5}[run.Seed%3]
	if run.Nodes < run.Voters {
		run.Voters = 3
	}
	run.SnapshotEvery = []uint64{300, 100, 0}[run.Seed/3%3]
	run.Diskless = run.Diskless || run.Seed/9%4 == 3
	run.Long = []time.Duration{10 * time.Minute, 2 * time.Minute, time.Hour}[run.Seed/7%3]
	if run.ReplaceAfter == 0 {
		run.ReplaceAfter = []time.Duration{5 * time.Second, 10 * time.Second, 7 * time.Second, 0}[run.Seed/36%4]
	}
	if run.ReplaceAfter == 0 && run.Duration < healFrom { // else nothing would be replaced
		run.ReplaceAfter = 6 * time.Second
	}
	run.Spares, run.Clients = 1, int(run.Seed/4%3)
	run.Replicas = run.Voters + 2 - int(run.Seed/5%2)
	run.Nodes += run.Spares + run.Clients
	return run
}

// play lets the callers and the faults loose, ends the faults, and demands service of everybody.
func (f *fleet) play(ctx context.Context, disks map[int]bool) error {
	for _, s := range f.slots {
		if s.vacant {
			continue
		}
		if err := s.start(); err != nil {
			return err
		}
	}
	forming, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if !f.until(forming, f.allReady(0)) {
		return errors.New("the fleet has not formed a group that serves")
	}
	living, die := context.WithCancel(ctx)
	var reopening sync.WaitGroup
	reopening.Go(func() { f.reopen(living) })
	defer reopening.Wait()
	defer die()
	inject(ctx, f, disks)
	f.relay.Calm()
	f.settleIn()
	f.over()
	f.serve(ctx)
	f.rest(ctx)
	f.drain(ctx)
	f.settle(ctx)
	f.recoverEarly(ctx)
	f.putBack(ctx)
	return nil
}

// serve demands that every node serves, and, after a longer run, that the fleet is whole.
func (f *fleet) serve(ctx context.Context) {
	over := f.now()
	for f.now() < over+2*story.ResumeMax && ctx.Err() == nil {
		f.tell(orderServe) // again, as a process may have been replaced meanwhile
		serving, cancel := context.WithTimeout(ctx, serveAgain)
		served := f.everybody(serving, func(l story.Line) bool { return l.From >= over && l.Event != nil && l.Event.Kind == history.Served })
		cancel()
		if served {
			break
		}
	}
	if f.run.Duration >= healFrom {
		f.heal(ctx, over)
	}
}

func (f *fleet) rest(ctx context.Context) {
	for end := f.now() + story.ResumeMax; f.now() < end && ctx.Err() == nil; {
		f.tell(orderRest) // again, as a process may have been replaced meanwhile
		resting, cancel := context.WithTimeout(ctx, serveAgain)
		rested := f.everybody(resting, func(l story.Line) bool { return l.Text == story.Rested })
		cancel()
		if rested {
			return
		}
	}
	if ctx.Err() == nil {
		f.wrong(-1, "not every process has said that its callers have finished")
	}
}

func (f *fleet) drain(ctx context.Context) {
	for _, s := range f.slots {
		draining, cancel := context.WithTimeout(ctx, 4*story.ResumeMax)
		mark := f.mark()
		s.order(orderDrain)
		if _, ok := f.seen(draining, mark, func(l story.Line) bool { return l.Text == story.Drained && l.Node == s.i }); !ok && ctx.Err() == nil {
			f.wrong(s.i, "the locks could not be taken one after the other at the end")
		}
		cancel()
	}
}

// settle demands that what each process was told of the locks comes to what they are.
func (f *fleet) settle(ctx context.Context) {
	settling, cancel := context.WithTimeout(ctx, story.ResumeMax)
	defer cancel()
	f.tell(orderSettle)
	if !f.everybody(settling, func(l story.Line) bool { return l.Text == story.Settled }) && ctx.Err() == nil {
		f.wrong(-1, "not every process has said that what it watched adds up")
	}
}

func (f *fleet) heal(ctx context.Context, over time.Duration) {
	healing, cancel := context.WithTimeout(ctx, story.HealMax)
	defer cancel()
	if f.until(healing, f.allReady(over)) || ctx.Err() != nil {
		return
	}
	for _, s := range f.slots {
		f.mu.Lock()
		ready, voters := s.ready(over), s.status.Voters
		f.mu.Unlock()
		if !ready {
			f.wrong(s.i, "not ready %v after the end of the faults; it knows the voters %v", story.HealMax, voters)
		}
	}
}

func (f *fleet) settleIn() {
	for _, s := range f.slots {
		f.mu.Lock()
		vacant := s.vacant
		f.mu.Unlock()
		if vacant {
			f.begins(s)
		}
	}
}

func (f *fleet) allReady(since time.Duration) func() bool {
	return func() bool {
		for _, s := range f.slots {
			if !s.vacant && !s.ready(since) {
				return false
			}
		}
		return true
	}
}

func (f *fleet) tell(order string) {
	for _, s := range f.slots {
		s.order(order)
	}
}

// everybody waits until every node has said a line that fits; false: ctx has ended before.
func (f *fleet) everybody(ctx context.Context, fits func(story.Line) bool) bool {
	who := make(map[int]bool)
	_, ok := f.seen(ctx, 0, func(l story.Line) bool {
		if fits(l) {
			who[l.Node] = true
		}
		return len(who) == len(f.slots)
	})
	return ok
}

func judge(dir string) (v story.Verdict, err error) {
	file, err := os.Open(filepath.Join(dir, recordFile))
	if err != nil {
		return v, err
	}
	defer file.Close()
	lines, err := story.Read(file)
	if err != nil {
		return v, err
	}
	var ledgers [2][]story.Entry
	for i, name := range []string{guardedFile, unguardedFile} {
		if ledgers[i], err = readLedger(filepath.Join(dir, resourceDir, name)); err != nil {
			return v, err
		}
	}
	return story.Judge(lines, ledgers[0], ledgers[1])
}

func readLedger(name string) ([]story.Entry, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return story.ReadLedger(file)
}

func save(dir string, v story.Verdict) error {
	merged, err := json.Marshal(slices.DeleteFunc(slices.Clone(v.History), func(e history.Event) bool { return e.Kind == history.Told }))
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, mergedFile), merged, 0o644),
		os.WriteFile(filepath.Join(dir, textFile), []byte(report.Text(v)), 0o644))
}
