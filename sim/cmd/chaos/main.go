//go:build unix

// Command chaos runs a fleet of real processes under faults and judges what its callers saw. It
// starts itself again as each process; every byte between them goes through a relay in this
// program, which cuts, delays and loses. By the seed, processes are killed, stopped, restarted,
// wiped and replaced, disks fill up, and the network breaks, while callers in every process take
// locks and write to a shared ledger. At the end all faults end and everybody must serve again.
//
//	go run ./sim/cmd/chaos -duration 10m -out /tmp/run
//	go run ./sim/cmd/chaos -check /tmp/run     # judges the record of that run again
//
// It prints the seed first and a report at last, leaves the record and the report in the out
// directory, and exits with 0 only if nothing was wrong and the run was not vacuous.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/report"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
)

const (
	nodesMin, nodesMax = 3, 9
	durationMin        = 10 * time.Second
)

func main() {
	if os.Getenv(processVar) != "" {
		os.Exit(runProcess())
	}
	var run story.Run
	flag.Uint64Var(&run.Seed, "seed", uint64(time.Now().UnixNano()%1e9), "decides the faults and what the callers do; the scheduler has a say too")
	flag.IntVar(&run.Nodes, "nodes", 5, "how many replicas, 3 to 9; the seed decides how many clients there are besides")
	flag.DurationVar(&run.Duration, "duration", time.Minute, "how long there are faults, 10s at least")
	flag.DurationVar(&run.TTL, "ttl", 2*time.Second, "how long a lease lives without renewal")
	flag.BoolVar(&run.Diskless, "diskless", false, "without disks, whatever the seed says")
	flag.DurationVar(&run.ReplaceAfter, "replace", 0, "Config.ReplaceAfter; 0: by the seed, 5 s to the default of 30 s")
	only := func(s string) error {
		run.Faults = append(run.Faults, strings.Split(s, ",")...)
		return nil
	}
	flag.Func("faults", "these kinds alone, separated by commas, to look closely at one: \"reset,kill\"; such a run is vacuous", only)
	flag.Func("acts", "as -faults, of what operators do and disks: \"move,down,leave several\"", only)
	out := flag.String("out", "", "directory for the record, the logs and the report; default: a new one in the system's temporary directory")
	check := flag.String("check", "", "judge the record in this directory again, and run nothing")
	flag.Parse()
	if run.Nodes < nodesMin || run.Nodes > nodesMax || run.Duration < durationMin || run.TTL < 500*time.Millisecond {
		fmt.Fprintln(os.Stderr, "chaos: nodes, duration or ttl out of bounds")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	v, err := act(ctx, run, *out, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if !v.OK() {
		os.Exit(1)
	}
}

func act(ctx context.Context, run story.Run, dir, old string) (v story.Verdict, err error) {
	if old != "" {
		dir = old
	} else {
		if dir == "" {
			if dir, err = os.MkdirTemp("", "holdfast-chaos-"); err != nil {
				return v, err
			}
		}
		fmt.Printf("chaos -seed %d -nodes %d -duration %v -ttl %v -out %s\n", run.Seed, run.Nodes, run.Duration, run.TTL, dir)
		if err := play(ctx, run, dir); err != nil {
			return v, err
		}
	}
	if v, err = judge(dir); err != nil {
		return v, err
	}
	fmt.Print(report.Text(v))
	fmt.Println("record:", dir)
	return v, save(dir, v)
}
