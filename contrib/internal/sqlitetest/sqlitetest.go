// Package sqlitetest makes files of SQLite that many connections may open at one moment.
package sqlitetest

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// New makes a database in the journal mode WAL, which its file keeps, and returns the data source
// name, with a query. Connections that change the mode at one moment, as a name with journal_mode
// asks them to, fail with SQLITE_BUSY at once, whatever their timeout. The driver "sqlite" must be
// registered.
func New(t testing.TB) string {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(60000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL"); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dsn
}
