//go:build unix

package pgxfence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib" // also the driver "pgx", by which the starter asks the server

	"github.com/holdfast-go/holdfast/contrib/pgxfence"
	"github.com/holdfast-go/holdfast/fence"
)

func TestThePgxGuard(t *testing.T) {
	t.Parallel()
	s := postgres(t)
	dsn := s.PostgresDSN("postgres")
	for name, test := range map[string]func(*testing.T, *pgxpool.Pool){
		"ItKeepsTheContract":                       contract,
		"ItKeepsTheContractInATransaction":         inTransaction,
		"ATransactionShutsOutTheFormerHolder":      shutOut,
		"MarkAndWriteCommitTogetherOrNotAtAll":     together,
		"SixtyFourWritersWithRandomTokens":         race,
		"AForeignMarkAdmitsNothing":                foreign,
		"ItIsOneGuardWithThatOfDatabaseSQL":        oneGuard,
		"ManyMayMakeTheTableAtOnce":                madeTogether,
		"ARoleThatMayNotMakeTablesUsesTheOneThere": func(t *testing.T, p *pgxpool.Pool) { withoutRights(t, p, pool(t, s.PostgresDSN("clerk"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pool(t, dsn))
		})
	}
	t.Run("SimpleProtocol", func(t *testing.T) { // as behind a pooler that knows no prepared statements
		t.Parallel()
		keeps(t, guard(t, pool(t, dsn+"&default_query_exec_mode=simple_protocol"), "simple"))
	})
}

func wantStale(t *testing.T, err error, resource string, token, highest fence.Token) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: resource, Token: token, Highest: highest}) {
		t.Errorf("token %v after %v: %v", token, highest, err)
	}
}

func contract(t *testing.T, p *pgxpool.Pool) { keeps(t, guard(t, p, "public.contract")) }

func inTransaction(t *testing.T, p *pgxpool.Pool) {
	g := guard(t, p, "in_transaction")
	err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
		keeps(t, g.In(tx))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantStale(t, g.Check(t.Context(), "r", 1), "r", 1, fence.TokenMax) // all of it was committed
}

// keeps is what package fence promises of every guard.
func keeps(t *testing.T, g *pgxfence.Guard) {
	t.Helper()
	ctx := t.Context()
	for _, token := range []fence.Token{5, 5, 9, fence.TokenMax, fence.TokenMax} {
		if err := g.Check(ctx, "r", token); err != nil {
			t.Errorf("token %v: %v", token, err)
		}
	}
	wantStale(t, g.Check(ctx, "r", fence.TokenMax-1), "r", fence.TokenMax-1, fence.TokenMax)
	wantStale(t, g.CheckOnce(ctx, "r", fence.TokenMax), "r", fence.TokenMax, fence.TokenMax)
	names := []string{"", "a", "A", "a ", "ä", "a\x00", "\xff\xfe", "'; --", strings.Repeat("r", fence.ResourceMax)}
	for i, name := range names {
		if err := g.CheckOnce(ctx, name, fence.Token(100-i)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		wantStale(t, g.CheckOnce(ctx, name, fence.Token(100-i)), name, fence.Token(100-i), fence.Token(100-i))
	}
	for i, name := range names {
		if mark, err := g.Highest(ctx, name); err != nil || mark != fence.Token(100-i) {
			t.Errorf("%q: mark %v, %v", name, mark, err)
		}
	}
	for _, token := range []fence.Token{0, fence.TokenMax + 1, 1<<64 - 1} {
		if err := errors.Join(g.Check(ctx, "none", token), g.CheckOnce(ctx, "none", token)); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", uint64(token), err)
		}
	}
	if err := g.Check(ctx, strings.Repeat("r", fence.ResourceMax+1), 9); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("a name that is too long: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := g.Check(ended, "none", 9); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if mark, err := g.Highest(ctx, "none"); err != nil || mark != 0 {
		t.Errorf("what was refused left the mark %v (%v)", mark, err)
	}
}

// While the transaction of one holder is open, the check of another waits, and then sees its mark.
func shutOut(t *testing.T, p *pgxpool.Pool) {
	g, ctx := guard(t, p, "shut_out"), t.Context()
	tx, err := p.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := g.In(tx).Check(ctx, "r", 9); err != nil {
		t.Fatal(err)
	}
	former := make(chan error, 1)
	go func() { former <- g.Check(ctx, "r", 5) }()
	const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%shut\\_out%'"
	for n := 0; n == 0; {
		select {
		case err := <-former:
			t.Fatalf("the former holder did not wait: %v", err)
		default:
		}
		if err := p.QueryRow(ctx, waits).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantStale(t, <-former, "r", 5, 9)
}

func together(t *testing.T, p *pgxpool.Pool) {
	g, ctx := guard(t, p, "together"), t.Context()
	exec(t, p, "CREATE TABLE journal (token BIGINT NOT NULL)")
	write := func(token fence.Token, end error) error {
		return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
			if err := g.In(tx).Check(ctx, "journal", token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO journal VALUES ($1)", token)
			return errors.Join(err, end)
		})
	}
	full := errors.New("the disk is full")
	if err := write(5, nil); err != nil {
		t.Error(err)
	}
	if err := write(9, full); !errors.Is(err, full) {
		t.Error(err)
	}
	wantStale(t, write(4, nil), "journal", 4, 5)
	var written int
	mark, err := g.Highest(ctx, "journal")
	if err = errors.Join(err, p.QueryRow(ctx, "SELECT count(*) FROM journal").Scan(&written)); err != nil || mark != 5 || written != 1 {
		t.Errorf("mark %v and %d writes, %v; want 5 and one", mark, written, err)
	}
}

// Each write takes its number while it has the row of the mark, so the numbers are in the order of
// the writes.
func race(t *testing.T, p *pgxpool.Pool) {
	g, ctx := guard(t, p, "race"), t.Context()
	exec(t, p, "CREATE TABLE entries (n BIGSERIAL, token BIGINT NOT NULL)")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 10 {
				token := 1 + rand.N(fence.Token(1000))
				err := pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
					if err := g.In(tx).Check(ctx, "entries", token); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "INSERT INTO entries (token) VALUES ($1)", token)
					return err
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Errorf("token %v: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	rows, err := p.Query(ctx, "SELECT token FROM entries ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	if len(tokens) < 2 || !slices.IsSorted(tokens) {
		t.Errorf("tokens in the order of their writes: %v", tokens)
	}
}

// A mark that no guard has written says nothing about which tokens were seen.
func foreign(t *testing.T, p *pgxpool.Pool) {
	exec(t, p, "CREATE TABLE foreign_marks (resource BYTEA PRIMARY KEY, mark BIGINT)") // as a user may have made it
	g, ctx := guard(t, p, "foreign_marks"), t.Context()
	for _, mark := range []any{int64(-1), int64(fence.TokenMax) + 1, nil} {
		exec(t, p, "DELETE FROM foreign_marks")
		exec(t, p, "INSERT INTO foreign_marks VALUES ($1, $2)", []byte("r"), mark)
		_, err := g.Highest(ctx, "r")
		for _, err := range []error{g.Check(ctx, "r", 1), g.CheckOnce(ctx, "r", fence.TokenMax), err} {
			if !errors.Is(err, fence.ErrDamaged) || errors.Is(err, fence.ErrStale) {
				t.Errorf("mark %v: %v", mark, err)
			}
		}
	}
}

func oneGuard(t *testing.T, p *pgxpool.Pool) {
	db := stdlib.OpenDBFromPool(p)
	defer db.Close()
	other, err := fence.NewSQL(db, fence.Postgres, "one_guard")
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := guard(t, p, "one_guard"), t.Context()
	if err := errors.Join(other.Check(ctx, "r", 5), g.Check(ctx, "r", 9)); err != nil {
		t.Error(err)
	}
	wantStale(t, g.Check(ctx, "r", 5), "r", 5, 9)
	wantStale(t, other.Check(ctx, "r", 8), "r", 8, 9)
}

func madeTogether(t *testing.T, p *pgxpool.Pool) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := pgxfence.New(t.Context(), p, "made_together"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func withoutRights(t *testing.T, p, clerk *pgxpool.Pool) {
	guard(t, p, "rights")
	exec(t, p, "CREATE ROLE clerk LOGIN")
	exec(t, p, "GRANT SELECT, INSERT, UPDATE ON rights TO clerk")
	if err := guard(t, clerk, "rights").Check(t.Context(), "r", 5); err != nil {
		t.Error(err)
	}
	if _, err := pgxfence.New(t.Context(), clerk, "no_rights"); err == nil {
		t.Error("the role may make tables: this test shows nothing")
	}
	if _, err := pgxfence.New(t.Context(), clerk, "no rights; --"); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
}
