package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/process"
)

// redisTTL is that of a lock, which nothing renews here: a pair is much shorter.
const redisTTL = 30 * time.Second

// redisSystem is servers of Redis that sync every write. One is used by redislock, several by
// redsync.
type redisSystem struct {
	servers int
	program string
}

func (r *redisSystem) obtain(ctx context.Context, s *store) (err error) {
	r.program, err = s.installed(ctx, "redis-server", []string{"/usr/bin"}, "redis-server")
	return err
}

func (r *redisSystem) start(_ context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(r.servers)
	if err != nil {
		return nil, err
	}
	c := &cluster{addrs: addrs, goodbye: syscall.SIGTERM}
	for i, addr := range addrs {
		data := fmt.Sprintf("%s/%d", dir, i)
		if err := os.Mkdir(data, 0o700); err != nil {
			return c, err
		}
		s, err := launch(exec.Command(r.program, "--port", port(addr), "--bind", "127.0.0.1",
			"--dir", data, "--save", "", "--appendonly", "yes", "--appendfsync", "always"), dir)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, s)
	}
	return c, c.client("redis")
}

// leader is any of several servers, as none leads.
func (r *redisSystem) leader(context.Context, *cluster) (int, error) {
	if r.servers == 1 {
		return 0, errNoFailover
	}
	return 0, nil
}

type redisLocks struct {
	clients []*redis.Client
	one     *redislock.Client
	several *redsync.Redsync
}

func dialRedis(addrs []string) (locks, error) {
	logging.Disable()
	r := &redisLocks{}
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		// A connection for each of up to 256 callers; the others wait for one.
		c := redis.NewClient(&redis.Options{
			Addr: addr, PoolSize: 256, MaxRetries: -1, PoolTimeout: callMax,
		})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	if len(addrs) == 1 {
		r.one = redislock.New(r.clients[0])
	} else {
		r.several = redsync.New(pools...)
	}
	return r, nil
}

func (r *redisLocks) leads() bool { return true }

func (r *redisLocks) Close() error {
	for _, c := range r.clients {
		_ = c.Close() // the process ends
	}
	return nil
}

func (r *redisLocks) caller(context.Context, bool) (caller, error) {
	if r.one != nil {
		return r.obtain, nil
	}
	return r.redlock, nil
}

// obtain acquires by redislock, whose waiters poll.
func (r *redisLocks) obtain(ctx context.Context, name string) (func(context.Context) error, error) {
	l, err := r.one.Obtain(ctx, name, redisTTL, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(pollWait),
	})
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// redlock acquires by redsync, whose waiters poll.
func (r *redisLocks) redlock(ctx context.Context, name string) (func(context.Context) error, error) {
	m := r.several.NewMutex(name, redsync.WithExpiry(redisTTL),
		redsync.WithTries(int(callMax/pollWait)), redsync.WithRetryDelay(pollWait))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if ok, err := m.UnlockContext(ctx); !ok {
			return fmt.Errorf("not released: %w", err)
		}
		return nil
	}, nil
}
