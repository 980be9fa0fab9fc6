package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// postgresConns are the connections of the client. A caller of a shared lock has one alone, as a
// waiter blocks its connection.
const postgresConns = 64

// postgresSystem is one server of Postgres and its session-level advisory locks. They are in shared
// memory alone: no setting makes them survive the server.
type postgresSystem struct{ program, initdb string }

func (p *postgresSystem) obtain(ctx context.Context, s *store) (err error) {
	places := []string{"/usr/lib/postgresql/*/bin"}
	if p.program, err = s.installed(ctx, "postgres", places, "postgresql"); err != nil {
		return err
	}
	p.initdb, err = s.installed(ctx, "initdb", places, "postgresql")
	return err
}

func (p *postgresSystem) start(ctx context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "pg")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	as, err := servers.RunAs(home, "postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(home, "data")
	initdb := exec.Command(p.initdb, "-D", data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = home, &syscall.SysProcAttr{Credential: as}
	if err := run(ctx, initdb, dir); err != nil {
		return nil, err
	}
	// SIGQUIT ends it at once, and it frees its shared memory.
	c := &cluster{addrs: addrs, goodbye: syscall.SIGQUIT, began: time.Now()}
	cmd := exec.Command(p.program, "-D", data, "-p", port(addrs[0]), "-h", "127.0.0.1", "-k", "",
		"-c", "max_connections=100", "-c", "autovacuum=off")
	cmd.Dir, cmd.SysProcAttr = home, &syscall.SysProcAttr{Credential: as}
	s, err := launch(cmd, dir)
	if err != nil {
		return nil, err
	}
	c.servers = append(c.servers, s)
	return c, c.client("postgres")
}

func (p *postgresSystem) leader(context.Context, *cluster) (int, error) { return 0, errNoFailover }

type postgresLocks struct {
	dsn   string
	next  atomic.Int64
	conns [postgresConns]postgresConn
}

// postgresConn is a connection that callers of locks of their own share.
type postgresConn struct {
	mu   sync.Mutex
	conn *pgx.Conn
}

func dialPostgres(addrs []string) (locks, error) {
	return &postgresLocks{dsn: "postgres://postgres@" + addrs[0] + "/postgres?sslmode=disable"}, nil
}

func (p *postgresLocks) leads() bool { return true }

// Close leaves the connections to the end of the process.
func (p *postgresLocks) Close() error { return nil }

func (p *postgresLocks) caller(context.Context, bool) (caller, error) {
	c := &p.conns[(p.next.Add(1)-1)%postgresConns]
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // it never fails
		key := int64(h.Sum64())
		err := c.do(ctx, p.dsn, "SELECT pg_advisory_lock($1)", key)
		return func(ctx context.Context) error {
			return c.do(ctx, p.dsn, "SELECT pg_advisory_unlock($1)", key)
		}, err
	}, nil
}

// do makes a statement, on a new connection if there is none.
func (c *postgresConn) do(ctx context.Context, dsn, statement string, key int64) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil || c.conn.IsClosed() {
		if c.conn, err = pgx.Connect(ctx, dsn); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
	}
	_, err = c.conn.Exec(ctx, statement, key)
	return err
}
