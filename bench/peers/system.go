package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	startMax = 60 * time.Second // until a system's first lock
	callMax  = 10 * time.Second // of one pair
	pollWait = 20 * time.Millisecond
)

// errNoFailover says that a system of one server has none to go on with.
var errNoFailover = errors.New("one server: no fail-over")

// system is one contestant. Its driver is in a file of its own.
type system interface {
	// obtain finds the system's programs, or installs them.
	obtain(ctx context.Context, s *store) error
	// start starts the servers of a fresh cluster, with their data in dir. What it has started
	// by an error it returns too: the caller stops it.
	start(ctx context.Context, dir string) (*cluster, error)
	// leader is the server to kill for the measure of fail-over, as an index.
	leader(ctx context.Context, c *cluster) (int, error)
}

// contestant is a system and what the tables say of it.
type contestant struct {
	name  string // for -only
	title string
	calls string // where callers are: in a client, or on the raft leader
	system
}

// contestants are all, in the order of the tables. The first is what the others are compared with.
func contestants() []contestant {
	return []contestant{
		{baseline, "holdfast ×3, disk", "raft leader", holdfastSystem{}},
		{"etcd", "etcd ×3, Mutex", "client", &etcdSystem{}},
		{"zookeeper", "ZooKeeper ×3, Lock", "client", &zookeeperSystem{}},
		{"hashiraft", "hashicorp/raft ×3, boltdb", "raft leader", hashiraftSystem{}},
		{"redis", "Redis ×1, redislock", "client", &redisSystem{servers: 1}},
		{"redlock", "Redis ×5, redsync", "client", &redisSystem{servers: 5}},
		{"postgres", "Postgres ×1, advisory lock", "client", &postgresSystem{}},
		{"nats", "NATS JetStream KV ×3", "client", &natsSystem{}},
	}
}

// baseline is the name of the contestant that ratios are to.
const baseline = "holdfast"

// choose returns the contestants that were asked for, and the baseline. Without a wish it is all.
func choose(all []contestant, only string) ([]contestant, error) {
	if only == "" {
		return all, nil
	}
	wanted := map[string]bool{baseline: true}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if !slices.ContainsFunc(all, func(c contestant) bool { return c.name == name }) {
			return nil, fmt.Errorf("no system %q: there are %s", name, strings.Join(names(all), ", "))
		}
		wanted[name] = true
	}
	unwanted := func(c contestant) bool { return !wanted[c.name] }
	return slices.DeleteFunc(slices.Clone(all), unwanted), nil
}

func names(all []contestant) (list []string) {
	for _, c := range all {
		list = append(list, c.name)
	}
	return list
}

// connect makes the locks of a worker.
func connect(ctx context.Context, s startup) (locks, error) {
	switch s.System {
	case "holdfast":
		return openHoldfast(ctx, s)
	case "etcd":
		return dialEtcd(s.Addrs)
	case "zookeeper":
		return dialZookeeper(s.Addrs)
	case "hashiraft":
		return openHashiraft(s)
	case "redis":
		return dialRedis(s.Addrs)
	case "postgres":
		return dialPostgres(s.Addrs)
	case "nats":
		return dialNATS(ctx, s.Addrs)
	}
	return nil, fmt.Errorf("no system %q", s.System)
}

// cluster is a system that runs. Of an embedded system each server is a seat of callers; another
// has one seat, its client.
type cluster struct {
	servers  []*server
	seats    []*seat
	embedded bool
	addrs    []string
	began    time.Time      // after what is done once for all starts; zero: there was nothing of that
	goodbye  syscall.Signal // ends a server in good order; 0 is SIGKILL
}

// embed starts an embedded system: workers that are the servers.
func embed(system string, addrs []string, dirs []string) (*cluster, error) {
	c := &cluster{embedded: true, addrs: addrs}
	for i, dir := range dirs {
		s, err := sit(startup{System: system, Addrs: addrs, Index: i, Dir: dir})
		if err != nil {
			return c, err
		}
		c.seats = append(c.seats, s)
		c.servers = append(c.servers, &server{Process: s.Process})
	}
	return c, nil
}

// client starts the worker that is the client of the servers.
func (c *cluster) client(system string) error {
	s, err := sit(startup{System: system, Addrs: c.addrs})
	if err == nil {
		c.seats = append(c.seats, s)
	}
	return err
}

// seat is where calls are made.
func (c *cluster) seat(ctx context.Context) (found *seat, err error) {
	i, err := c.seatOfLeader(ctx)
	if err != nil {
		return nil, err
	}
	return c.seats[i], nil
}

// seatOfLeader waits for a seat that leads. A client always does.
func (c *cluster) seatOfLeader(ctx context.Context) (at int, err error) {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	processes := slices.Clone(c.servers)
	for _, s := range c.seats {
		processes = append(processes, &server{Process: s.Process})
	}
	err = await(ctx, processes, func(ctx context.Context) error {
		at = -1
		for i, s := range c.seats {
			a, err := s.ask(ctx, order{Op: opLeads})
			if err != nil {
				return err
			}
			if a.Leads {
				at = i
				return nil
			}
		}
		return errors.New("no leader")
	})
	return at, err
}

// survivors are the seats that stay when a server is killed.
func (c *cluster) survivors(victim int) []*seat {
	if !c.embedded {
		return c.seats
	}
	return slices.Delete(slices.Clone(c.seats), victim, victim+1)
}

// stop ends all processes of the cluster.
func (c *cluster) stop() {
	for _, s := range c.seats {
		(&server{Process: s.Process}).kill()
	}
	done := make(chan struct{})
	for _, s := range c.servers {
		go func() {
			defer func() { done <- struct{}{} }()
			if c.goodbye != 0 {
				s.end(c.goodbye)
			}
			s.kill()
		}()
	}
	for range c.servers {
		<-done
	}
}
