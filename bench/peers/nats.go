package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/internal/process"
)

const (
	natsModule  = "github.com/nats-io/nats-server/v2"
	natsVersion = "v2.15.2"
	natsBucket  = "locks"
)

// natsSystem is three servers of NATS with a replicated bucket of JetStream, synced at every write:
// by default they sync every two minutes.
type natsSystem struct{ program string }

func (n *natsSystem) obtain(ctx context.Context, s *store) (err error) {
	n.program, err = s.built(ctx, "nats-server", natsModule, natsVersion)
	return err
}

func (n *natsSystem) start(_ context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(6)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, addr := range addrs[3:] {
		routes = append(routes, strconv.Quote("nats://"+addr))
	}
	c := &cluster{addrs: addrs[:3], goodbye: syscall.SIGTERM}
	for i := range 3 {
		config := filepath.Join(dir, fmt.Sprintf("nats-%d.conf", i))
		text := fmt.Sprintf("server_name: s%d\nlisten: %q\n"+
			"jetstream { store_dir: %q, sync_interval: always }\n"+
			"cluster { name: peers, listen: %q, routes: [ %s ] }\n",
			i, addrs[i], filepath.Join(dir, fmt.Sprint(i)), addrs[3+i], strings.Join(routes, ", "))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return c, err
		}
		s, err := launch(exec.Command(n.program, "-c", config), dir)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, s)
	}
	return c, c.client("nats")
}

// leader is the server that leads the bucket's stream.
func (n *natsSystem) leader(ctx context.Context, c *cluster) (int, error) {
	conn, err := natsConnect(c.addrs)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, "KV_"+natsBucket)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.Cluster != nil {
		for i := range c.servers {
			if info.Cluster.Leader == fmt.Sprint("s", i) {
				return i, nil
			}
		}
	}
	return 0, errors.New("the bucket has no leader")
}

func natsConnect(addrs []string) (*nats.Conn, error) {
	return nats.Connect("nats://"+strings.Join(addrs, ",nats://"), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
}

type natsLocks struct {
	conn *nats.Conn
	mu   sync.Mutex
	kv   jetstream.KeyValue
}

func dialNATS(_ context.Context, addrs []string) (locks, error) {
	conn, err := natsConnect(addrs)
	return &natsLocks{conn: conn}, err
}

func (n *natsLocks) leads() bool { return true }

func (n *natsLocks) Close() error {
	n.conn.Close()
	return nil
}

// bucket makes the bucket. An entry's age limit frees the lock of a dead holder.
func (n *natsLocks) bucket(ctx context.Context) (kv jetstream.KeyValue, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kv != nil {
		return n.kv, nil
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // servers that have not met do not answer
	defer cancel()
	n.kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: natsBucket, Replicas: 3, History: 1, TTL: time.Minute, Storage: jetstream.FileStorage,
	})
	if err != nil {
		n.kv = nil
	}
	return n.kv, err
}

// natsTaken reports whether a key is there. Its client knows one of the two codes for that.
func natsTaken(err error) bool {
	const wrongLastSequence = 10164
	var answer *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &answer) && answer.ErrorCode == wrongLastSequence
}

// caller creates a key and deletes it, as the documents of NATS advise. Waiters poll.
func (n *natsLocks) caller(ctx context.Context, _ bool) (caller, error) {
	kv, err := n.bucket(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		for {
			revision, err := kv.Create(ctx, name, []byte("held"))
			if err == nil {
				return func(ctx context.Context) error {
					return kv.Delete(ctx, name, jetstream.LastRevision(revision))
				}, nil
			}
			if !natsTaken(err) {
				return nil, err
			}
			select {
			case <-time.After(pollWait):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}, nil
}
