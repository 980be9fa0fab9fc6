// Package pgxfence guards what is written to Postgres through pgx, without database/sql, with the
// fencing tokens of Holdfast locks. The marks are in a table, one row for each resource, and a check
// is one statement in the transaction of the writes.
package pgxfence

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/fence"
)

// DB asks Postgres: pgx.Tx, *pgx.Conn, *pgxpool.Pool and the DBTX that sqlc generates do.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Guard is a fence.Guard with its marks in a table, which is also that of a fence.SQL: guards of one
// table are one guard, in any process. It is safe for concurrent use as its DB is. Use New, and In
// for the transaction of the guarded writes.
type Guard struct {
	db          DB
	table       string // quoted
	raise, look string // statements
}

var _ fence.Guard = (*Guard)(nil)

// New returns the guard of a table and makes the table if it is missing; fence.Postgres.Schema has
// that statement for migrations. The name of the table is one for fence.NewSQL. Concurrent calls
// are safe. db is a pool or a connection; what the guard checks over it is committed at once.
func New(ctx context.Context, db DB, table string) (*Guard, error) {
	if ctx == nil || db == nil {
		return nil, fmt.Errorf("%w: ctx or db is nil", fence.ErrInvalid)
	}
	create, err := fence.Postgres.Schema(table)
	if err != nil {
		return nil, err
	}
	quoted := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	g := &Guard{
		db: db, table: quoted,
		// It locks the row of the mark, raised or not, to the end of the transaction.
		raise: "INSERT INTO " + quoted + " AS f (resource, mark) VALUES ($1, $2) " +
			"ON CONFLICT (resource) DO UPDATE SET mark = excluded.mark WHERE f.mark BETWEEN 0 AND $3 RETURNING mark",
		look: "SELECT mark FROM " + quoted + " WHERE resource = $1",
	}
	if g.readable(ctx) == nil {
		return g, nil // a role that may not make tables uses the one that is there
	}
	err = db.QueryRow(ctx, create).Scan()
	if !errors.Is(err, pgx.ErrNoRows) && g.readable(ctx) != nil { // another process may have made it
		return nil, g.wrap(err)
	}
	return g, nil
}

func (g *Guard) readable(ctx context.Context) error {
	err := g.db.QueryRow(ctx, "SELECT resource, mark FROM "+g.table+" WHERE false").Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// In is g in a transaction, whose guarded writes come after the check; mark and writes then commit
// together or not at all. Other writers of the resource wait until the transaction has ended. The
// check should be the first statement: an earlier read may be outdated by a former holder's write.
// The caller rolls back on every error, also a refusal.
func (g *Guard) In(tx DB) *Guard {
	in := *g
	in.db = tx
	return &in
}

// Check admits t unless a higher token was seen.
func (g *Guard) Check(ctx context.Context, resource string, t fence.Token) error {
	return g.check(ctx, resource, t, t)
}

// CheckOnce admits t only if neither it nor a higher token was seen.
func (g *Guard) CheckOnce(ctx context.Context, resource string, t fence.Token) error {
	return g.check(ctx, resource, t, t-1)
}

// Highest is the mark of a resource, zero if it has none.
func (g *Guard) Highest(ctx context.Context, resource string) (fence.Token, error) {
	if err := validate(ctx, resource, fence.TokenMax); err != nil {
		return 0, err
	}
	mark, err := g.mark(ctx, resource)
	return mark, g.wrap(err)
}

// check admits t over marks up to below.
func (g *Guard) check(ctx context.Context, resource string, t, below fence.Token) error {
	if err := validate(ctx, resource, t); err != nil {
		return err
	}
	var raised int64
	err := g.db.QueryRow(ctx, g.raise, []byte(resource), int64(t), int64(below)).Scan(&raised)
	if errors.Is(err, pgx.ErrNoRows) {
		err = g.refusal(ctx, resource, t, below)
	}
	return g.wrap(err)
}

// refusal is the reason why the table did not admit t.
func (g *Guard) refusal(ctx context.Context, resource string, t, below fence.Token) error {
	mark, err := g.mark(ctx, resource)
	if err != nil {
		return err
	}
	if mark > below {
		return &fence.StaleError{Resource: resource, Token: t, Highest: mark}
	}
	return fmt.Errorf("the row %q changed during the check: try again", resource)
}

// mark reads a mark, zero if there is none. It refuses what no guard writes: a stale token could
// pass a low one.
func (g *Guard) mark(ctx context.Context, resource string) (mark fence.Token, err error) {
	var raw *int64
	err = g.db.QueryRow(ctx, g.look, []byte(resource)).Scan(&raw)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case raw == nil || *raw < 0 || *raw > int64(fence.TokenMax):
		return 0, fmt.Errorf("%w: the mark of %q", fence.ErrDamaged, resource)
	}
	return fence.Token(*raw), nil
}

// wrap names the table in an error of the database; a refusal stays as it is.
func (g *Guard) wrap(err error) error {
	var stale *fence.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("holdfast: fence table %s: %w", g.table, err)
}

// validate refuses what no guard accepts.
func validate(ctx context.Context, resource string, t fence.Token) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: ctx is nil", fence.ErrInvalid)
	case len(resource) > fence.ResourceMax:
		return fmt.Errorf("%w: resource: %d bytes, at most %d are allowed", fence.ErrInvalid, len(resource), fence.ResourceMax)
	case t == 0 || t > fence.TokenMax:
		return fmt.Errorf("%w: %d for resource %q", fence.ErrInvalidToken, uint64(t), resource)
	}
	return ctx.Err()
}
