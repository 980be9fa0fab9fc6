package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// querier is *sql.DB or *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// place is the column of marks in a table whose rows have a key. The names are quoted.
type place struct {
	dialect          Dialect
	table, key, mark string
}

// look reads one mark. If locking, it is the newest: a plain read of MySQL is of the transaction's
// snapshot, which may be older than its lock of the row.
func (p place) look(ctx context.Context, q querier, key any, locking bool) (mark Token, exists bool, err error) {
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s", p.mark, p.table, p.key, p.dialect.arg(1))
	if locking && p.dialect == MySQL {
		query += " FOR UPDATE"
	}
	var raw any
	err = q.QueryRowContext(ctx, query, key).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err == nil {
		mark, err = p.parse(raw)
	}
	return mark, true, err
}

// parse refuses values that no guard writes: a stale token could pass a low one.
func (p place) parse(raw any) (Token, error) {
	var t Token
	if err := t.Scan(raw); err != nil {
		return 0, fmt.Errorf("%w: a mark in %s: %w", ErrDamaged, p.table, err)
	}
	return t, nil
}

// refusal is the reason why the database did not admit t.
func (p place) refusal(ctx context.Context, q querier, key any, name string, t Token, once bool) error {
	mark, exists, err := p.look(ctx, q, key, true)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("no row %s: %w", name, sql.ErrNoRows)
	}
	if err := judge(name, t, mark, once); err != nil {
		return err
	}
	return fmt.Errorf("the row %s changed during the check: try again", name)
}

// floor is the highest of all marks, zero if there are none.
func (p place) floor(ctx context.Context, q querier) (Token, error) {
	query := fmt.Sprintf("SELECT MIN(%[1]s), MAX(%[1]s), COUNT(*) - COUNT(%[1]s), COUNT(*) FROM %[2]s", p.mark, p.table)
	var low, high any
	var null, all int64
	if err := q.QueryRowContext(ctx, query).Scan(&low, &high, &null, &all); err != nil || all == 0 {
		return 0, err
	}
	if null > 0 {
		return 0, fmt.Errorf("%w: %d marks in %s are NULL", ErrDamaged, null, p.table)
	}
	if _, err := p.parse(low); err != nil {
		return 0, err
	}
	return p.parse(high)
}

// wrap names the table in an error of the database; a refusal stays as it is.
func (p place) wrap(err error) error {
	var stale *StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("holdfast: fence table %s: %w", p.table, err)
}
