//go:build unix

package processes_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// glance is how often a witness looks.
	glance = 10 * time.Millisecond
	// promptly is the delay of a processor or a disk of which a node may not fall ill: an answer takes some six
	// of them at most, one after the other, and a node is ill after a second without any.
	promptly = 150 * time.Millisecond
)

// witness returns what a process may blame the machine for while ctx lasts: for how long it got no
// processor, and how long a write took of a file beside its log, its fsync included.
func witness(ctx context.Context, path string) (worst time.Duration, err error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	watch := func(look func() error) func() {
		return func() {
			for ctx.Err() == nil {
				began := time.Now()
				failed := look()
				mu.Lock()
				worst, err = max(worst, time.Since(began)), errors.Join(err, failed)
				mu.Unlock()
			}
		}
	}
	var eyes sync.WaitGroup
	eyes.Go(watch(func() error {
		time.Sleep(glance) // real time: it is late when the process gets no processor
		return nil
	}))
	eyes.Go(watch(func() error {
		time.Sleep(glance) // real time: the file grows a little, and so its fsync waits for all of the disk
		_, failed := file.Write(make([]byte, 100))
		return errors.Join(failed, file.Sync())
	}))
	eyes.Wait()
	return worst, errors.Join(err, file.Close())
}
