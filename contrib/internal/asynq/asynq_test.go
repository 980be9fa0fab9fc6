package asynq_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lead enqueues a task each second while this node leads, until ctx ends.
func lead(ctx context.Context, c *holdfast.Cluster, redis asynq.RedisConnOpt, enqueued func(error)) error {
	return c.Lead(ctx, "periodic", func(ctx context.Context, _ *holdfast.Lease) error {
		s := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
			LogLevel:        asynq.FatalLevel,
			PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) { enqueued(err) },
		})
		if _, err := s.Register("@every 1s", asynq.NewTask("report", nil)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done() // the leadership is lost, or the process ends
		s.Shutdown()
		return ctx.Err()
	})
}

// redisServer starts a server on a socket in a directory of its own.
func redisServer(t *testing.T) asynq.RedisClientOpt {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	socket := filepath.Join(t.TempDir(), "redis")
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", filepath.Dir(socket))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Process.Kill(), server.Wait()); err == nil {
			t.Error("the server ended by itself")
		}
	})
	redis := asynq.RedisClientOpt{Network: "unix", Addr: socket}
	client := asynq.NewClient(redis)
	defer client.Close()
	for client.Ping() != nil { // until it listens
		if t.Context().Err() != nil {
			t.Fatal("the server does not answer")
		}
	}
	return redis
}

func TestTheLeaderAloneEnqueues(t *testing.T) {
	t.Parallel()
	redis := redisServer(t)
	fleet := holdfasttest.Fleet(t, 3)
	type enqueued struct {
		node int
		err  error
	}
	tasks := make(chan enqueued, 1000)
	ends := make([]context.CancelFunc, len(fleet))
	var wg sync.WaitGroup
	for i, c := range fleet {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ends[i] = end
		wg.Go(func() {
			if err := lead(ctx, c, redis, func(err error) { tasks <- enqueued{i, err} }); !errors.Is(err, context.Canceled) {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	next := func() int {
		select {
		case e := <-tasks:
			if e.err != nil {
				t.Error(e.err)
			}
			return e.node
		case <-time.After(time.Minute):
			t.Fatal("nothing was enqueued for a minute")
			return -1
		}
	}
	first := next()
	if second, third := next(), next(); second != first || third != first {
		t.Errorf("nodes %d, %d and %d enqueued", first, second, third)
	}
	ends[first]() // it hands over
	other := first
	for other == first {
		other = next()
	}
	if another := next(); another != other {
		t.Errorf("nodes %d and %d enqueued after %d", other, another, first)
	}
	for _, end := range ends {
		end()
	}
	wg.Wait()
}
