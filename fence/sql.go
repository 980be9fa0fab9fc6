package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQL is a Guard with its marks in a table: one row per resource. Guarded writes belong into the
// transaction of the check, where both commit or neither: Do, or CheckTx. Check and CheckOnce are
// for other writes; another holder may come between the check and the write. Use NewSQL.
//
// The row of the resource stays locked from CheckTx to the end of the transaction, so other writers
// of the resource wait. A check of an admitted token is one statement.
type SQL struct {
	observer
	db            *sql.DB
	place         place
	create, raise string
}

var _ Guard = (*SQL)(nil)

// NewSQL returns the guard of a table of db and calls CreateTable, for 10 s at most. The name of
// the table has letters, digits and underscores, 63 at most, perhaps after the name of a schema and
// a dot; it is quoted, so its case matters where it does in quotes. Guards of one table are one
// guard, in any process.
//
// A SQLite database needs a busy timeout, or concurrent checks fail with its "database is locked".
func NewSQL(db *sql.DB, d Dialect, table string) (*SQL, error) {
	const patience = 10 * time.Second
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil", ErrInvalid)
	}
	create, err := d.Schema(table)
	if err != nil {
		return nil, err
	}
	quoted, err := d.quote("table", table)
	if err != nil {
		return nil, err
	}
	s := &SQL{
		db:     db,
		place:  place{dialect: d, table: quoted, key: "resource", mark: "mark"},
		create: create,
		raise:  d.raise(quoted),
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.CreateTable(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Schema is the statement that makes the table of a guard, for migrations. CreateTable needs no
// right to make an existing table.
func (d Dialect) Schema(table string) (string, error) {
	if err := d.validate(); err != nil {
		return "", err
	}
	quoted, err := d.quote("table", table)
	if err != nil {
		return "", err
	}
	// Resources are bytes: collations of text equate "a" and "A", or "a" and "a ", and refuse some
	// bytes.
	key, end := map[Dialect]string{
		Postgres: "BYTEA", MySQL: fmt.Sprintf("VARBINARY(%d)", ResourceMax), SQLite: "BLOB",
	}[d], ""
	if d == MySQL {
		end = " ENGINE=InnoDB" // other engines have no transactions
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (resource %s NOT NULL PRIMARY KEY, "+
		"mark BIGINT NOT NULL CHECK (mark BETWEEN 0 AND %d))%s", quoted, key, TokenMax, end), nil
}

var errNoDB = fmt.Errorf("%w: db is nil: the guard is not of NewSQL or NewRows", ErrInvalid)

// usable refuses a nil ctx, and a guard that nobody made.
func usable(ctx context.Context, db *sql.DB) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: ctx is nil", ErrInvalid)
	case db == nil:
		return errNoDB
	}
	return nil
}

// CreateTable makes the table if it is missing; NewSQL calls it. Concurrent calls are safe.
func (s *SQL) CreateTable(ctx context.Context) error {
	if err := usable(ctx, s.db); err != nil {
		return err
	}
	if s.readable(ctx) == nil {
		return nil
	}
	_, err := s.db.ExecContext(ctx, s.create)
	if err != nil && s.readable(ctx) != nil { // another process may have made it
		return fmt.Errorf("holdfast: fence table %s: %w", s.place.table, err)
	}
	return nil
}

func (s *SQL) readable(ctx context.Context) error {
	var none any
	err := s.db.QueryRowContext(ctx, "SELECT resource, mark FROM "+s.place.table+" WHERE 1 = 0").Scan(&none, &none)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// Check admits t unless a higher token was seen. The mark is committed when it returns.
func (s *SQL) Check(ctx context.Context, resource string, t Token) error {
	return s.check(ctx, s.db, resource, t, false)
}

// CheckOnce admits t only if neither it nor a higher token was seen. The mark is committed when it
// returns.
func (s *SQL) CheckOnce(ctx context.Context, resource string, t Token) error {
	return s.check(ctx, s.db, resource, t, true)
}

// CheckTx is Check in a transaction of the caller; the caller rolls it back on every error, also a
// refusal. The mark rises when tx commits. CheckTx should be the first statement: earlier reads may
// be outdated by a former holder's writes, and on SQLite a transaction that has read may be unable
// to write.
func (s *SQL) CheckTx(ctx context.Context, tx *sql.Tx, resource string, t Token) error {
	return s.checkTx(ctx, tx, resource, t, false)
}

// CheckOnceTx is CheckOnce in a transaction of the caller, with the rules of CheckTx.
func (s *SQL) CheckOnceTx(ctx context.Context, tx *sql.Tx, resource string, t Token) error {
	return s.checkTx(ctx, tx, resource, t, true)
}

func (s *SQL) checkTx(ctx context.Context, tx *sql.Tx, resource string, t Token, once bool) error {
	if tx == nil {
		return s.note(ctx, resource, t, fmt.Errorf("%w: tx is nil", ErrInvalid))
	}
	return s.check(ctx, tx, resource, t, once)
}

func (s *SQL) check(ctx context.Context, q querier, resource string, t Token, once bool) error {
	return s.note(ctx, resource, t, s.ask(ctx, q, resource, t, once))
}

func (s *SQL) ask(ctx context.Context, q querier, resource string, t Token, once bool) error {
	if err := s.validate(ctx, resource, t); err != nil {
		return err
	}
	admitted, err := s.place.dialect.raised(q.ExecContext(ctx, s.raise, s.place.dialect.raiseArgs(resource, t, once)...))
	if err == nil && !admitted {
		err = s.place.refusal(ctx, q, []byte(resource), resource, t, once)
	}
	return s.place.wrap(err)
}

// Do runs fn in a transaction that begins with CheckTx and commits if fn returns nil; a refused
// token does not run fn. An error or a panic, which goes on, rolls it back, and so does the end of
// ctx. After an error of the commit, fn's writes may exist, and the mark with them.
func (s *SQL) Do(ctx context.Context, resource string, t Token, fn func(*sql.Tx) error) error {
	tx, err := s.begin(ctx, resource, t, fn)
	if err != nil {
		return s.note(ctx, resource, t, err)
	}
	checked := s.ask(ctx, tx, resource, t, false)
	defer func() {
		_ = tx.Rollback() // does nothing after the commit
		_ = s.note(ctx, resource, t, checked)
	}()
	if checked != nil {
		return checked
	}
	if err := fn(tx); err != nil {
		return err
	}
	return s.place.wrap(tx.Commit())
}

// begin starts the transaction of Do.
func (s *SQL) begin(ctx context.Context, resource string, t Token, fn func(*sql.Tx) error) (*sql.Tx, error) {
	if err := s.validate(ctx, resource, t); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("%w: fn is nil", ErrInvalid)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.place.wrap(err)
	}
	return tx, nil
}

// Highest is the mark of a resource, zero if it has none.
func (s *SQL) Highest(ctx context.Context, resource string) (Token, error) {
	if err := s.validate(ctx, resource, TokenMax); err != nil {
		return 0, err
	}
	mark, _, err := s.place.look(ctx, s.db, []byte(resource), false)
	return mark, s.place.wrap(err)
}

// Floor is the highest mark of all resources, zero if there are none: for Config.TokenFloor. It
// reads the whole table.
func (s *SQL) Floor(ctx context.Context) (Token, error) {
	if err := usable(ctx, s.db); err != nil {
		return 0, err
	}
	mark, err := s.place.floor(ctx, s.db)
	return mark, s.place.wrap(err)
}

func (s *SQL) validate(ctx context.Context, resource string, t Token) error {
	if s.db == nil {
		return errNoDB
	}
	return validate(ctx, resource, t)
}
