//go:build unix

package gooselock_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast/contrib/internal/migrationtest"
	"github.com/holdfast-go/holdfast/contrib/internal/sqlitetest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// base is a database, as new. open connects once more; statements of impatient fail where they
// would wait for a lock.
type base struct {
	goose           database.Dialect
	fence           fence.Dialect
	open, impatient func(t *testing.T) *sql.DB
}

// onEach runs a test on each database that is here.
func onEach(t *testing.T, test func(t *testing.T, b base)) {
	opened := func(driver, dsn string) func(*testing.T) *sql.DB {
		return func(t *testing.T) *sql.DB {
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return db
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dsn := sqlitetest.New(t) + "&_txlock=immediate"
		test(t, base{goose.DialectSQLite3, fence.SQLite, opened("sqlite", dsn), opened("sqlite", strings.Replace(dsn, "(60000)", "(0)", 1))})
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		s := serverstest.Start(t, servers.Postgres)
		dsn := s.PostgresDSN("postgres")
		test(t, base{goose.DialectPostgres, fence.Postgres, opened("pgx", dsn), opened("pgx", dsn+"&lock_timeout=1ms")})
	})
}

// guard is a guard in the database.
func (b base) guard(t *testing.T, db *sql.DB) *fence.SQL {
	t.Helper()
	g, err := fence.NewSQL(db, b.fence, "fence")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// provider has migrations that fail or leave a trace if they run twice: the second notes each step
// that it is asked for.
func (b base) provider(t *testing.T, db *sql.DB, second func(context.Context, *sql.Tx) error, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	statement := func(text string) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		}
	}
	migrations := []*goose.Migration{
		goose.NewGoMigration(1, &goose.GoFunc{RunTx: statement("CREATE TABLE steps (step INTEGER)")}, nil),
		goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if err := second(ctx, tx); err != nil {
				return err
			}
			return statement("INSERT INTO steps VALUES (2)")(ctx, tx)
		}}, nil),
		goose.NewGoMigration(3, &goose.GoFunc{RunTx: statement("INSERT INTO steps VALUES (3)")}, nil),
	}
	p, err := goose.NewProvider(goose.DialectCustom, db, nil, append(opts, goose.WithGoMigrations(migrations...), goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// store is goose's own for the database.
func (b base) store(t *testing.T) database.Store {
	t.Helper()
	s, err := database.NewStore(b.goose, "versions")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantSteps asserts which migrations have left their trace, in order, and the version that is
// noted.
func wantSteps(t *testing.T, db *sql.DB, version int64, want ...int) {
	t.Helper()
	migrationtest.WantSteps(t, db, want...)
	var count, highest int64
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), max(version_id) FROM versions WHERE version_id > 0").Scan(&count, &highest); err != nil {
		t.Fatal(err)
	}
	if count != version || highest != version {
		t.Errorf("%d versions are noted, the highest is %d; want %d", count, highest, version)
	}
}

func nothing(context.Context, *sql.Tx) error { return nil }
