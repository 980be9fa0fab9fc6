package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/gocronlock"
)

// Two schedulers have the same job. In a service each is in a process of its own, and the Config
// names the others in Join.
func Example() {
	c, err := holdfast.Open(context.Background(), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	locker, err := gocronlock.NewLocker(c, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	var ticks sync.WaitGroup
	for range 2 {
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			log.Fatal(err)
		}
		defer func() {
			if err := s.Shutdown(); err != nil {
				log.Print(err)
			}
		}()
		write := func() {
			defer ticks.Done()
			fmt.Println("the report is written")
		}
		skipped := func(_ uuid.UUID, _ string, err error) {
			defer ticks.Done()
			if !errors.Is(err, holdfast.ErrHeld) {
				log.Print(err)
			}
		}
		ticks.Add(1)
		_, err = s.NewJob(
			gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), // or gocron.CronJob("* * * * *", false)
			gocron.NewTask(write),
			gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(skipped)))
		if err != nil {
			log.Fatal(err)
		}
		s.Start()
	}
	ticks.Wait()
	// Output: the report is written
}
