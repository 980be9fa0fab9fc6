package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
)

// unreachable is a driver.Connector of a database that is down. What real databases do is tested in
// contrib/internal/fencetest: a driver is not in the standard library.
type unreachable struct{}

func (unreachable) Connect(context.Context) (driver.Conn, error) { return nil, io.ErrUnexpectedEOF }
func (unreachable) Driver() driver.Driver                        { return nil }

func TestNewSQLNamesTheArgumentThatItCannotUse(t *testing.T) {
	t.Parallel()
	db := sql.OpenDB(unreachable{})
	defer db.Close()
	for field, open := range map[string]func() error{
		"db":      func() error { _, err := NewSQL(nil, Postgres, "fence"); return err },
		"dialect": func() error { _, err := NewSQL(db, 0, "fence"); return err },
		"Dialect(9)": func() error {
			_, err := NewRows(db, 9, "t", "k", "m")
			return err
		},
		"db is":   func() error { _, err := NewRows(nil, MySQL, "t", "k", "m"); return err },
		"mark \"": func() error { _, err := NewRows(db, MySQL, "t", "k", "m m"); return err },
		"key \"":  func() error { _, err := NewRows(db, MySQL, "t", "", "m"); return err },
	} {
		if err := open(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := NewSQL(db, SQLite, "fence"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a database that is down: %v", err)
	}
}

func TestNoTableNameGetsOutOfItsQuotes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "a.", ".a", `a"b`, "a`b", "a b", "a;b", "1a", "a-b", "ä", "a\x00",
		"a\n", strings.Repeat("a", 64), `fence"; DROP TABLE accounts; --`} {
		for _, d := range []Dialect{Postgres, MySQL, SQLite} {
			if s, err := d.Schema(name); !errors.Is(err, ErrInvalid) {
				t.Errorf("%v, %q: %s, %v", d, name, s, err)
			}
		}
	}
	if s, err := Postgres.Schema("app.fence"); err != nil || !strings.Contains(s, `"app"."fence"`) {
		t.Errorf("%s, %v", s, err)
	}
	if s, err := MySQL.Schema("app.fence"); err != nil || !strings.Contains(s, "`app`.`fence`") {
		t.Errorf("%s, %v", s, err)
	}
}
