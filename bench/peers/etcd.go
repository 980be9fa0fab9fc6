package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/internal/process"
)

const (
	etcdModule  = "go.etcd.io/etcd/server/v3"
	etcdVersion = "v3.7.3"
)

// etcdSystem is three servers of etcd, which sync every commit. Its election timeout of 500 ms is
// half the default: etcd's own advice for a local network.
type etcdSystem struct{ program string }

func (e *etcdSystem) obtain(ctx context.Context, s *store) (err error) {
	e.program, err = s.built(ctx, "etcd", etcdModule, etcdVersion)
	return err
}

func (e *etcdSystem) start(_ context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(6)
	if err != nil {
		return nil, err
	}
	clients, peers := addrs[:3], addrs[3:]
	var members []string
	for i, addr := range peers {
		members = append(members, fmt.Sprintf("s%d=http://%s", i, addr))
	}
	c := &cluster{addrs: clients, goodbye: syscall.SIGTERM}
	for i := range clients {
		s, err := launch(exec.Command(e.program, "--name", fmt.Sprint("s", i),
			"--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--log-level", "error",
			"--listen-client-urls", "http://"+clients[i], "--advertise-client-urls", "http://"+clients[i],
			"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
			"--heartbeat-interval", "50", "--election-timeout", "500"), dir)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, s)
	}
	return c, c.client("etcd")
}

func (e *etcdSystem) leader(ctx context.Context, c *cluster) (int, error) {
	client, err := etcdClient(c.addrs)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for i, addr := range c.addrs {
		st, err := client.Status(ctx, "http://"+addr)
		if err != nil {
			return 0, err
		}
		if st.Leader == st.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("etcd has no leader")
}

func etcdClient(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: time.Second, Logger: zap.NewNop(),
	})
}

// etcdLocks are the mutexes of one client. Callers of locks of their own have one session together,
// as a process has; callers of a shared lock have one each, since a session holds a mutex once.
type etcdLocks struct {
	client *clientv3.Client
	mu     sync.Mutex
	common *concurrency.Session
}

func dialEtcd(addrs []string) (locks, error) {
	client, err := etcdClient(addrs)
	return &etcdLocks{client: client}, err
}

func (e *etcdLocks) leads() bool  { return true }
func (e *etcdLocks) Close() error { return e.client.Close() }

func (e *etcdLocks) session(ctx context.Context) (*concurrency.Session, error) {
	grant, err := e.client.Grant(ctx, 10)
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(e.client, concurrency.WithLease(grant.ID))
}

// ours is the common session. One that has ended is replaced.
func (e *etcdLocks) ours(ctx context.Context) (s *concurrency.Session, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.common != nil {
		select {
		case <-e.common.Done():
		default:
			return e.common, nil
		}
	}
	e.common, err = e.session(ctx)
	return e.common, err
}

func (e *etcdLocks) caller(ctx context.Context, shared bool) (caller, error) {
	session := e.ours
	if shared {
		mine, err := e.session(ctx)
		if err != nil {
			return nil, err
		}
		session = func(context.Context) (*concurrency.Session, error) { return mine, nil }
	}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		s, err := session(ctx)
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, "/locks/"+name)
		return m.Unlock, m.Lock(ctx)
	}, nil
}
