package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// Rows guards the rows of a table, each with its own mark, and writes in one statement: a
// conditional UPDATE is check and write at once and needs no transaction. It is the cheapest guard,
// for writes of one row. Use NewRows.
type Rows struct {
	observer
	db    *sql.DB
	place place
}

// NewRows returns the guard of a user's table. The column key identifies its rows (a primary key or
// a unique one); the user makes the column mark:
//
//	ALTER TABLE accounts ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
//
// Names are as in NewSQL. NewRows sends nothing to the database.
func NewRows(db *sql.DB, d Dialect, table, key, mark string) (*Rows, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil", ErrInvalid)
	}
	if err := d.validate(); err != nil {
		return nil, err
	}
	p := place{dialect: d}
	for _, name := range []struct {
		field, value string
		quoted       *string
	}{{"table", table, &p.table}, {"key", key, &p.key}, {"mark", mark, &p.mark}} {
		var err error
		if *name.quoted, err = d.quote(name.field, name.value); err != nil {
			return nil, err
		}
	}
	return &Rows{db: db, place: p}, nil
}

// Update changes the row with that key unless it has seen a higher token. set is the text after
// SET, args are its arguments, with the database's own placeholders (for Postgres from $1 on):
//
//	err := rows.Update(ctx, 7, lease.Token(), "balance = balance - $1", 100)
//
// *StaleError refuses the token and sql.ErrNoRows is the lack of a row; neither changes anything.
func (r *Rows) Update(ctx context.Context, key any, t Token, set string, args ...any) error {
	return r.update(ctx, r.db, key, t, false, set, args)
}

// UpdateOnce is Update that admits t only if the row has seen neither it nor a higher token: a
// repetition of the same write is refused.
func (r *Rows) UpdateOnce(ctx context.Context, key any, t Token, set string, args ...any) error {
	return r.update(ctx, r.db, key, t, true, set, args)
}

// UpdateTx is Update in a transaction of the caller; the caller rolls it back on every error.
func (r *Rows) UpdateTx(ctx context.Context, tx *sql.Tx, key any, t Token, set string, args ...any) error {
	if tx == nil {
		return r.note(ctx, fmt.Sprint(key), t, fmt.Errorf("%w: tx is nil", ErrInvalid))
	}
	return r.update(ctx, tx, key, t, false, set, args)
}

func (r *Rows) update(ctx context.Context, q querier, key any, t Token, once bool, set string, args []any) error {
	name := fmt.Sprint(key)
	return r.note(ctx, name, t, r.write(ctx, q, key, name, t, once, set, args))
}

func (r *Rows) write(ctx context.Context, q querier, key any, name string, t Token, once bool, set string, args []any) error {
	if r.db == nil {
		return errNoDB
	}
	if err := validate(ctx, name[:min(len(name), ResourceMax)], t); err != nil {
		return err
	}
	p, d, n := r.place, r.place.dialect, len(args)
	value := d.arg(n + 1)
	if d == MySQL { // it does not count an unchanged row, so the token itself is the answer
		value = "LAST_INSERT_ID(?)"
	}
	if set != "" {
		set += ", "
	}
	statement := fmt.Sprintf("UPDATE %s SET %s%s = %s WHERE %s = %s AND %s BETWEEN 0 AND %s",
		p.table, set, p.mark, value, p.key, d.arg(n+2), p.mark, d.arg(n+3))
	all := append(append(make([]any, 0, n+3), args...), t, key, bound(t, once))
	admitted, err := d.updated(t)(q.ExecContext(ctx, statement, all...))
	if err == nil && !admitted {
		err = p.refusal(ctx, q, key, name, t, once)
	}
	return p.wrap(err)
}

// Highest is the mark of the row with that key, zero without a token or without the row.
func (r *Rows) Highest(ctx context.Context, key any) (Token, error) {
	if err := usable(ctx, r.db); err != nil {
		return 0, err
	}
	mark, _, err := r.place.look(ctx, r.db, key, false)
	return mark, r.place.wrap(err)
}

// Floor is the highest mark of all rows, zero if there are none: for Config.TokenFloor. It reads
// the whole table.
func (r *Rows) Floor(ctx context.Context) (Token, error) {
	if err := usable(ctx, r.db); err != nil {
		return 0, err
	}
	mark, err := r.place.floor(ctx, r.db)
	return mark, r.place.wrap(err)
}
