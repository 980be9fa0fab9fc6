package fence

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// Dialect is the SQL of a database.
type Dialect uint8

// The dialects of SQL and Rows.
const (
	Postgres Dialect = iota + 1 // PostgreSQL from 9.5
	MySQL                       // MariaDB and MySQL, tables of InnoDB
	SQLite                      // SQLite from 3.24
)

// String is the name of the database.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

func (d Dialect) validate() error {
	if d < Postgres || d > SQLite {
		return fmt.Errorf("%w: dialect %v", ErrInvalid, d)
	}
	return nil
}

// arg is the placeholder of the n-th argument, counted from one.
func (d Dialect) arg(n int) string {
	switch d {
	case Postgres:
		return fmt.Sprintf("$%d", n)
	case SQLite:
		return fmt.Sprintf("?%d", n)
	default:
		return "?"
	}
}

// quote quotes an identifier, or several with dots between them. Letters, digits and underscores
// need no escape, so they cannot end the quotes.
func (d Dialect) quote(field, name string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})*$`).MatchString(name) {
		return "", fmt.Errorf("%w: %s %.80q: letters, digits and underscores, 63 at most, and dots between names",
			ErrInvalid, field, name)
	}
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, ".", mark+"."+mark) + mark, nil
}

// raise is the statement that makes or raises a mark in one step and locks its row, raised or not.
// Its arguments are those of raiseArgs.
//
// MySQL counts a row that stays as it is as none or as one affected, as the client chose, so there
// the statement answers by LAST_INSERT_ID: 0 for a new row, 2 for an admitted token, 1 for a
// refused one.
func (d Dialect) raise(table string) string {
	if d == MySQL {
		return fmt.Sprintf("INSERT INTO %s (resource, mark) VALUES (?, ?) ON DUPLICATE KEY UPDATE "+
			"mark = IF(LAST_INSERT_ID(1 + (COALESCE(mark, -1) BETWEEN 0 AND ?)) = 2, ?, mark)", table)
	}
	return fmt.Sprintf("INSERT INTO %s AS f (resource, mark) VALUES (%s, %s) ON CONFLICT (resource) "+
		"DO UPDATE SET mark = excluded.mark WHERE f.mark BETWEEN 0 AND %s", table, d.arg(1), d.arg(2), d.arg(3))
}

func (d Dialect) raiseArgs(resource string, t Token, once bool) []any {
	args := []any{[]byte(resource), t, bound(t, once)}
	if d == MySQL {
		args = append(args, t)
	}
	return args
}

// raised reads from the answer to raise whether the token was admitted.
func (d Dialect) raised(r sql.Result, err error) (bool, error) {
	return d.done(r, err, func(answer int64) bool { return answer != 1 })
}

// updated reads from the answer to the UPDATE of Rows whether a row was changed. On MySQL
// LAST_INSERT_ID is t if so.
func (d Dialect) updated(t Token) func(sql.Result, error) (bool, error) {
	return func(r sql.Result, err error) (bool, error) {
		return d.done(r, err, func(answer int64) bool { return answer == int64(t) })
	}
}

func (d Dialect) done(r sql.Result, err error, mysql func(answer int64) bool) (bool, error) {
	if err != nil {
		return false, err
	}
	if d == MySQL {
		answer, err := r.LastInsertId()
		return mysql(answer), err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// bound is the highest mark that admits t.
func bound(t Token, once bool) Token {
	if once {
		return t - 1
	}
	return t
}
