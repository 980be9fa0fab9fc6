//go:build unix

package pgxfence_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/pgxfence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What sqlc generates for pgx is asked through this.
type sqlc interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

var (
	_ pgxfence.DB = sqlc(nil)
	_ pgxfence.DB = pgx.Tx(nil)
	_ pgxfence.DB = (*pgx.Conn)(nil)
	_ pgxfence.DB = (*pgxpool.Pool)(nil)
	_ pgxfence.DB = (*pgxpool.Conn)(nil)
)

// postgres starts a server for the tests of a function.
func postgres(t *testing.T) *servers.Server {
	t.Helper()
	return serverstest.Start(t, servers.Postgres)
}

func pool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func guard(t *testing.T, db pgxfence.DB, table string) *pgxfence.Guard {
	t.Helper()
	g, err := pgxfence.New(t.Context(), db, table)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func exec(t *testing.T, p *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	if _, err := p.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
