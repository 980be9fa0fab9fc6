//go:build unix

package migratelock_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/internal/migrationtest"
	"github.com/holdfast-go/holdfast/contrib/internal/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

// golang-migrate leaves behind who reads ahead when a migration fails.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer"))
}

// base is a database, as new.
type base struct {
	name, driver, dsn string
	url               string // golang-migrate's
	wrap              func(*sql.DB) (database.Driver, error)
}

// inFile is a database of SQLite.
func inFile(t *testing.T) base {
	dsn := sqlitetest.New(t)
	file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	return base{
		name: "sqlite", driver: "sqlite", url: "sqlite://" + file,
		dsn:  dsn + "&_txlock=immediate",
		wrap: func(db *sql.DB) (database.Driver, error) { return sqlite.WithInstance(db, &sqlite.Config{}) },
	}
}

// onEach runs a test on each database that is here.
func onEach(t *testing.T, test func(t *testing.T, b base)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, inFile(t))
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		s := serverstest.Start(t, servers.Postgres)
		test(t, base{
			name: "postgres", driver: "pgx", dsn: s.PostgresDSN("postgres"),
			url:  strings.Replace(s.PostgresDSN("postgres"), "postgres://", "pgx5://", 1),
			wrap: func(db *sql.DB) (database.Driver, error) { return pgx.WithInstance(db, &pgx.Config{}) },
		})
	})
}

// open connects once more.
func (b base) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) // a driver of golang-migrate has closed it
	return db
}

// inner is golang-migrate's own driver.
func (b base) inner(t *testing.T) database.Driver {
	t.Helper()
	d, err := b.wrap(b.open(t))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// migrator has three migrations that fail, or leave a trace, if they run twice.
func (b base) migrator(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(fstest.MapFS{
		"1_one.up.sql":   {Data: []byte("CREATE TABLE steps (step INTEGER)")},
		"2_two.up.sql":   {Data: []byte("INSERT INTO steps VALUES (2)")},
		"3_three.up.sql": {Data: []byte("INSERT INTO steps VALUES (3)")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, b.name, d)
	if err != nil {
		t.Fatal(err)
	}
	m.LockTimeout = 2 * migrationtest.Patience
	t.Cleanup(func() {
		if err := errors.Join(m.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// wantSteps asserts which migrations have left their trace.
func (b base) wantSteps(t *testing.T, want ...int) {
	t.Helper()
	migrationtest.WantSteps(t, b.open(t), want...)
}
