//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// strainVar is for how many seconds the tests of this file make a process short of something. The
// default is for everyday runs; 30 is what is promised.
const strainVar = "HOLDFAST_TEST_STRAIN"

func strainTime(t *testing.T) time.Duration { return spanOf(t, strainVar, "s", 6*time.Second) }

// spanOf is what an environment variable says, a number of units or a duration without one, or else
// everyday.
func spanOf(t *testing.T, variable, unit string, everyday time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return everyday
	}
	d, err := time.ParseDuration(s + unit)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// strain makes the process that runs it short of something for a while. It carries out orders of
// that kind, and returns which part of the machine's processor time the process had meanwhile.
func strain(ctx context.Context, o order) (share float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	began, before := time.Now(), used()
	switch o.Op {
	case "starve":
		err = starve(ctx)
	case "burn":
		burn(ctx)
	default:
		err = fmt.Errorf("no such order: %s", o.Op)
	}
	return (used() - before) / time.Since(began).Seconds() / float64(runtime.NumCPU()), err
}

// starve uses up all file descriptors, and those that others let go of, until ctx ends.
func starve(ctx context.Context) error {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	few := before
	few.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	var eaten []int
	defer func() {
		for _, fd := range eaten {
			_ = syscall.Close(fd)
		}
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	}()
	for ctx.Err() == nil {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		switch {
		case err == nil:
			eaten = append(eaten, fd)
			continue
		case !errors.Is(err, syscall.EMFILE):
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	if len(eaten) < 100 {
		return fmt.Errorf("only %d descriptors were to be had", len(eaten))
	}
	return nil
}

// burn keeps every processor busy twice over and the garbage collector too, until ctx ends.
func burn(ctx context.Context) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var kept [64][]byte
			for i := 0; ctx.Err() == nil; i++ {
				kept[i%len(kept)] = make([]byte, 32<<10)
				for j := range kept[i%len(kept)] {
					kept[i%len(kept)][j] = byte(i + j)
				}
			}
		})
	}
	all.Wait()
}

// holds fails the test unless p's lease is good all the time until the orders under way are carried
// out, and says whether it was renewed meanwhile. Where those who carry them out had less than least of
// the machine together, others have taken the lease away, and the test is skipped.
func (p *proc) holds(name string, least float64, orders ...<-chan answer) (renewed bool) {
	p.t.Helper()
	lost, share, left := "", 0.0, time.Duration(math.MaxInt64)
	for _, under := range orders {
		for done := false; !done; {
			look := p.ask(order{Op: "look", Name: name})
			if !look.Valid && lost == "" {
				lost = fmt.Sprintf("%s lost %s: %s", p.cfg.Name, name, look.Err)
			}
			renewed, left = renewed || look.Left > left, look.Left
			select {
			case a := <-under:
				if a.Err != "" {
					p.t.Errorf("%s", a.Err)
				}
				done, share = true, share+a.Share
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	p.t.Logf("they had %.2f of the machine", share)
	switch {
	case lost != "" && share < least:
		p.t.Skipf("the machine is too busy with others for this test: %s", lost)
	case lost != "":
		p.t.Fatal(lost)
	}
	return renewed
}

func TestAShortLeaseSurvivesAHostThatIsShortOfProcessorAndMemory(t *testing.T) {
	t.Parallel()
	p := procs(t, 3, func(cfg *processConfig) { cfg.DataDir = "" }) // the disk is one that all tests share
	held := p[0].must(order{Op: "acquire", Name: "lock", TTL: 2 * time.Second})
	var busy []<-chan answer
	for _, q := range p {
		busy = append(busy, q.begin(order{Op: "burn", TTL: strainTime(t), Timeout: time.Minute}))
	}
	p[0].holds("lock", 0.5, busy...)
	p[1].must(order{Op: "verify", Name: "lock", Token: held.Token})
	s := p[0].must(order{Op: "status"})
	t.Logf("sessions ended late by at most %v", s.Status.LateMax)
	p[0].must(order{Op: "release", Name: "lock"})
}

func TestAProcessThatRunsOutOfDescriptorsLivesOn(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	idle, writer, third := p[0], p[1], p[2]
	held := idle.must(order{Op: "acquire", Name: "lock", TTL: 15 * time.Second})
	writer.must(order{Op: "acquire", Name: "written", TTL: time.Hour})
	// Longer than the lease lives without renewal: who still holds it then has renewed it meanwhile.
	lack := order{Op: "starve", TTL: max(strainTime(t), 16*time.Second), Timeout: time.Minute}
	hungry := []<-chan answer{idle.begin(lack), writer.begin(lack)}
	// The log of the one that writes needs new files, which it cannot have.
	value := []byte(strings.Repeat("v", 48<<10))
	var writes []<-chan answer
	for range 160 {
		writes = append(writes, writer.begin(order{Op: "set", Name: "written", Value: value, Timeout: time.Minute}))
	}
	if !idle.holds("lock", 0, hungry...) {
		t.Error("the lease was not renewed during the lack of descriptors")
	}
	for _, w := range writes {
		if a := <-w; a.Err != "" {
			t.Fatalf("a write during the lack of descriptors: %s", a.Err)
		}
	}
	idle.must(order{Op: "verify", Name: "lock", Token: held.Token})
	writer.must(order{Op: "release", Name: "written"})

	// Others may not even be able to connect.
	lack.TTL = 2 * time.Second
	starving := idle.begin(lack)
	third.kill()
	third.start()
	if a := <-starving; a.Err != "" {
		t.Error(a.Err)
	}
	for _, q := range p {
		q.ready()
		q.must(order{Op: "acquire", Name: "own/" + q.cfg.Name, TTL: time.Minute})
		q.must(order{Op: "release", Name: "own/" + q.cfg.Name})
	}
}
