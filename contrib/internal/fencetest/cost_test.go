//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/contrib/internal/sqlitetest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// What the guards cost, for docs/fencing.md: each kind of write without its guard and with it.
//
//	go test -run '^$' -bench . -benchtime 300x
func BenchmarkWrite(b *testing.B) {
	ctx := b.Context()
	benchSQL(b, "SQLite", database{dialect: fence.SQLite, driver: "sqlite", dsn: sqlitetest.New(b)})
	if s := started(b, servers.Postgres); s != nil {
		benchSQL(b, "Postgres", database{dialect: fence.Postgres, driver: "pgx", dsn: s.PostgresDSN("postgres")})
	}
	if s := started(b, servers.MariaDB); s != nil {
		benchSQL(b, "MariaDB", database{dialect: fence.MySQL, driver: "mysql", dsn: s.MariaDBDSN("")})
	}
	if s := started(b, servers.Redis); s != nil {
		benchRedis(b, s)
	}
	f, err := fence.OpenFile(filepath.Join(b.TempDir(), "marks"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	token := fence.Token(1)
	measure(b, "File/SameToken", func() error { return f.Check(ctx, "r", token) })
	measure(b, "File/NewToken", func() error { token++; return f.Check(ctx, "r", token) })
	memory := fence.NewMemory()
	measure(b, "Memory", func() error { return memory.Check(ctx, "r", 1) })
	benchHTTP(b)
}

func started(b *testing.B, start func(context.Context) (*servers.Server, error)) *servers.Server {
	s, err := start(b.Context())
	if errors.Is(err, servers.ErrNotInstalled) {
		b.Log(err)
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func measure(b *testing.B, name string, write func() error) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			if err := write(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchSQL(b *testing.B, name string, d database) {
	ctx := b.Context()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TABLE bench (id INTEGER PRIMARY KEY, v BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)",
		"INSERT INTO bench (id, v) VALUES (1, 0)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			b.Fatal(err)
		}
	}
	guard, err1 := fence.NewSQL(db, d.dialect, "bench_fence")
	rows, err2 := fence.NewRows(db, d.dialect, "bench", "id", "fence")
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	const update = "UPDATE bench SET v = v + 1 WHERE id = 1"
	measure(b, name+"/Statement", func() error { _, err := db.ExecContext(ctx, update); return err })
	measure(b, name+"/StatementWithRows", func() error { return rows.Update(ctx, 1, 5, "v = v + 1") })
	measure(b, name+"/Transaction", func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, update); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	measure(b, name+"/TransactionWithDo", func() error {
		return guard.Do(ctx, "r", 5, func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, update); return err })
	})
	measure(b, name+"/CheckAlone", func() error { return guard.Check(ctx, "r", 5) })
}

func benchRedis(b *testing.B, s *servers.Server) {
	ctx := b.Context()
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	guard := fence.NewRedis(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}, "fence:")
	measure(b, "Redis/Set", func() error { return client.Set(ctx, "v", "x", 0).Err() })
	measure(b, "Redis/SetWithEval", func() error {
		_, err := guard.Eval(ctx, "r", 5, "return redis.call('SET', KEYS[1], ARGV[1])", []string{"v"}, "x")
		return err
	})
}

func benchHTTP(b *testing.B) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, guarded := httptest.NewServer(next), httptest.NewServer(fence.Handler(fence.NewMemory(), nil, next))
	defer plain.Close()
	defer guarded.Close()
	client := &http.Client{Transport: fence.Transport(nil)}
	defer client.CloseIdleConnections()
	for name, url := range map[string]string{"HTTP/Put": plain.URL, "HTTP/PutWithHandler": guarded.URL} {
		measure(b, name, func() error {
			r, err := http.NewRequestWithContext(fence.NewContext(b.Context(), 5), http.MethodPut, url, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			return errors.Join(fence.ResponseError(resp), resp.Body.Close())
		})
	}
}
