package cronlock_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/cronlock"
)

// Two crons have the same job. In a service each is in a process of its own, and the Config names
// the others in Join.
func Example() {
	c, err := holdfast.Open(context.Background(), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	runs, reports := make(map[time.Time]int), make(map[time.Time]int)
	both := make(chan time.Time, 2) // a tick that both crons have come to
	job := cronlock.Job{
		Name:     "report",
		Schedule: cronlock.Every(200 * time.Millisecond), // or cron.ParseStandard("30 4 * * *")
		Run:      func(context.Context, *holdfast.Lease) error { return nil },
		Report: func(tick time.Time, r holdfast.OnceResult, err error) {
			mu.Lock()
			defer mu.Unlock()
			if r.Ran {
				runs[tick]++
			}
			if reports[tick]++; reports[tick] == 2 && err == nil && len(both) == 0 {
				both <- tick
			}
		},
	}
	crons := []*cron.Cron{cron.New(), cron.New()}
	for _, cr := range crons {
		if _, err := cronlock.Add(ctx, cr, c, job); err != nil {
			log.Fatal(err)
		}
		cr.Start()
	}
	tick := <-both
	cancel()
	for _, cr := range crons {
		<-cr.Stop().Done()
	}
	fmt.Println("runs of a tick that two crons came to:", runs[tick])
	// Output: runs of a tick that two crons came to: 1
}
