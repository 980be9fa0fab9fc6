//go:build unix

package servers

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Postgres starts a server of PostgreSQL; its database is postgres, its user postgres without a
// password.
func Postgres(ctx context.Context) (*Server, error) {
	places := "/usr/lib/postgresql/*/bin"
	program, err1 := Find("postgres", places)
	initdb, err2 := Find("initdb", places)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s, err := newServer("postgres", "postgres")
	if err != nil {
		return nil, err
	}
	s.goodbye = syscall.SIGINT // after SIGTERM it waits for its clients
	data := filepath.Join(s.dir, "data")
	prepare := exec.CommandContext(ctx, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
	prepare.Dir, prepare.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := prepare.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), s.Close())
	}
	s.command = func() []string {
		return []string{program, "-D", data, "-p", strconv.Itoa(s.port), "-h", "127.0.0.1", "-k", s.dir,
			"-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=16MB"}
	}
	s.ping = func(ctx context.Context) error { return pingSQL(ctx, "pgx", s.PostgresDSN("postgres")) }
	return s, s.first(ctx)
}

// PostgresDSN names a user to the driver pgx.
func (s *Server) PostgresDSN(user string) string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", user, s.Addr())
}

// MariaDB starts a server of MariaDB, without users and with a database named test.
func MariaDB(ctx context.Context) (*Server, error) {
	program, err := Find("mariadbd", "/usr/sbin", "/usr/local/sbin")
	if err != nil {
		return nil, err
	}
	s, err := newServer("mariadb", "mysql")
	if err != nil {
		return nil, err
	}
	s.command = func() []string {
		return []string{program, "--no-defaults", "--datadir=" + s.dir, "--skip-grant-tables", "--bind-address=127.0.0.1",
			"--port=" + strconv.Itoa(s.port), "--socket=" + filepath.Join(s.dir, "socket"), "--pid-file=" + filepath.Join(s.dir, "pid"),
			"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--max-connections=200"}
	}
	s.ping = func(ctx context.Context) error { return pingSQL(ctx, "mysql", "root@tcp("+s.Addr()+")/") }
	if err := s.first(ctx); err != nil {
		return nil, err
	}
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS test")
		err = errors.Join(err, db.Close())
	}
	if err == nil { // killed in its first life, MariaDB 10.11 leaves a system tablespace that it refuses to open
		err = s.settle(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// MariaDBDSN is the database test for the driver mysql, with options such as
// "clientFoundRows=true".
func (s *Server) MariaDBDSN(options string) string {
	return "root@tcp(" + s.Addr() + ")/test?" + options
}

func pingSQL(ctx context.Context, driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// Redis starts a server of Redis that has every write in its log before it answers.
func Redis(ctx context.Context) (*Server, error) {
	program, err := Find("redis-server")
	if err != nil {
		return nil, err
	}
	s, err := newServer("redis", "redis")
	if err != nil {
		return nil, err
	}
	s.command = func() []string {
		return []string{program, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}
	s.ping = s.pingRedis
	return s, s.first(ctx)
}

func (s *Server) pingRedis(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "+PONG" {
		return fmt.Errorf("redis answers %q (%v)", answer, err)
	}
	return nil
}
