//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

func wantStale(t *testing.T, err error, resource string, token, highest fence.Token) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: resource, Token: token, Highest: highest}) {
		t.Errorf("token %v after %v: %v", token, highest, err)
	}
}

// reader is a guard whose marks can be read back.
type reader interface {
	fence.Guard
	Highest(ctx context.Context, resource string) (fence.Token, error)
}

// keepsContract is what package fence promises of every guard.
func keepsContract(t *testing.T, g reader) {
	t.Helper()
	ctx := t.Context()
	for _, token := range []fence.Token{5, 5, 9, fence.TokenMax, fence.TokenMax} {
		if err := g.Check(ctx, "r", token); err != nil {
			t.Errorf("token %v: %v", token, err)
		}
	}
	wantStale(t, g.Check(ctx, "r", fence.TokenMax-1), "r", fence.TokenMax-1, fence.TokenMax)
	wantStale(t, g.Check(ctx, "r", 1), "r", 1, fence.TokenMax)
	wantStale(t, g.CheckOnce(ctx, "r", fence.TokenMax), "r", fence.TokenMax, fence.TokenMax)

	if err := g.CheckOnce(ctx, "once", 5); err != nil {
		t.Error(err)
	}
	wantStale(t, g.CheckOnce(ctx, "once", 5), "once", 5, 5)
	if err := g.Check(ctx, "once", 5); err != nil {
		t.Errorf("Check of the same token: %v", err)
	}
	if err := g.CheckOnce(ctx, "once", 6); err != nil {
		t.Error(err)
	}

	for _, token := range []fence.Token{0, fence.TokenMax + 1, 1<<64 - 1} {
		if err := errors.Join(g.Check(ctx, "none", token), g.CheckOnce(ctx, "none", token)); !errors.Is(err, fence.ErrInvalidToken) ||
			errors.Is(err, fence.ErrStale) {
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
	for resource, want := range map[string]fence.Token{"r": fence.TokenMax, "once": 6, "none": 0} {
		if got, err := g.Highest(ctx, resource); err != nil || got != want {
			t.Errorf("mark of %q: %v, %v; want %v", resource, got, err, want)
		}
	}
}

func contract(t *testing.T, d database, table string) {
	g := d.guard(t, d.open(t), table)
	if floor, err := g.Floor(t.Context()); err != nil || floor != 0 {
		t.Errorf("floor without marks: %v, %v", floor, err)
	}
	keepsContract(t, g)
	if floor, err := g.Floor(t.Context()); err != nil || floor != fence.TokenMax {
		t.Errorf("floor: %v, %v", floor, err)
	}
	// Another guard of the same table is the same guard.
	wantStale(t, d.guard(t, d.open(t), table).Check(t.Context(), "r", 5), "r", 5, fence.TokenMax)
}

// rowContract is the contract of rows that carry their own mark.
func rowContract(t *testing.T, d database, table string) {
	db, ctx := d.open(t), t.Context()
	exec(t, db, fmt.Sprintf("CREATE TABLE %s (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0)", table))
	exec(t, db, fmt.Sprintf("INSERT INTO %s (id, v) VALUES (1, 0), (2, 0)", table))
	rows, err := fence.NewRows(db, d.dialect, table, "id", "fence")
	if err != nil {
		t.Fatal(err)
	}
	if floor, err := rows.Floor(ctx); err != nil || floor != 0 {
		t.Errorf("floor of rows without marks: %v, %v", floor, err)
	}
	set := "v = " + d.arg(1)
	for _, token := range []fence.Token{5, 5, 9, fence.TokenMax, fence.TokenMax} { // the last one changes nothing in the row
		if err := rows.Update(ctx, 1, token, set, 100); err != nil {
			t.Errorf("token %v: %v", token, err)
		}
	}
	wantStale(t, rows.Update(ctx, 1, 8, set, 200), "1", 8, fence.TokenMax)
	wantStale(t, rows.UpdateOnce(ctx, 1, fence.TokenMax, set, 200), "1", fence.TokenMax, fence.TokenMax)
	if err := rows.UpdateOnce(ctx, 2, 5, set, 300); err != nil {
		t.Error(err)
	}
	wantStale(t, rows.UpdateOnce(ctx, 2, 5, set, 400), "2", 5, 5)
	if err := rows.Update(ctx, 2, 6, ""); err != nil { // the mark alone: shuts out the former holder before reading
		t.Errorf("nothing to set: %v", err)
	}
	if err := rows.Update(ctx, 3, 5, set, 100); !errors.Is(err, sql.ErrNoRows) || errors.Is(err, fence.ErrStale) {
		t.Errorf("no such row: %v", err)
	}
	if err := rows.Update(ctx, 2, 0, set, 500); !errors.Is(err, fence.ErrInvalidToken) {
		t.Errorf("token zero: %v", err)
	}
	for id, want := range map[int]int{1: 100, 2: 300} {
		var got int
		if err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM %s WHERE id = %d", table, id)).Scan(&got); err != nil || got != want {
			t.Errorf("row %d: %d, %v", id, got, err)
		}
	}
	exec(t, db, fmt.Sprintf("UPDATE %s SET fence = -3 WHERE id = 2", table))
	if err := rows.Update(ctx, 2, 9, set, 600); !errors.Is(err, fence.ErrDamaged) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a negative mark: %v", err)
	}
	if _, err := rows.Floor(ctx); !errors.Is(err, fence.ErrDamaged) {
		t.Errorf("floor with a negative mark: %v", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	wantStale(t, rows.UpdateTx(ctx, tx, 1, 8, set, 700), "1", 8, fence.TokenMax)
}

// Collations of text find some names equal, and a refusal for one would be a refusal for the other.
func everyByte(t *testing.T, d database) {
	g := d.guard(t, d.open(t), "every_byte")
	names := []string{"", " ", "a", "A", "a ", "ä", "a\x00", "\xff\xfe", "%", "'; --", strings.Repeat("r", fence.ResourceMax)}
	for i, name := range names {
		if err := g.Check(t.Context(), name, fence.Token(100-i)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for i, name := range names {
		if mark, err := g.Highest(t.Context(), name); err != nil || mark != fence.Token(100-i) {
			t.Errorf("%q: mark %v, %v", name, mark, err)
		}
	}
}

// A mark that no guard has written says nothing about which tokens were seen.
func foreignMarks(t *testing.T, d database) {
	db, ctx := d.open(t), t.Context()
	kind := map[fence.Dialect]string{fence.Postgres: "BYTEA", fence.MySQL: "VARBINARY(1024)", fence.SQLite: "BLOB"}[d.dialect]
	exec(t, db, "CREATE TABLE foreign_marks (resource "+kind+" PRIMARY KEY, mark BIGINT)") // as a user may have made it
	g := d.guard(t, db, "foreign_marks")
	marks := []any{int64(-1), int64(-1 << 63), int64(fence.TokenMax) + 1, int64(1<<63 - 1), nil}
	if d.dialect == fence.SQLite {
		marks = append(marks, "soon")
	}
	for _, mark := range marks {
		exec(t, db, "DELETE FROM foreign_marks")
		exec(t, db, fmt.Sprintf("INSERT INTO foreign_marks (resource, mark) VALUES (%s, %s)", d.arg(1), d.arg(2)), []byte("r"), mark)
		for _, token := range []fence.Token{1, fence.TokenMax} {
			for _, err := range []error{g.Check(ctx, "r", token), g.CheckOnce(ctx, "r", token)} {
				if !errors.Is(err, fence.ErrDamaged) || errors.Is(err, fence.ErrStale) {
					t.Errorf("mark %v, token %v: %v", mark, token, err)
				}
			}
		}
		if _, err := g.Highest(ctx, "r"); !errors.Is(err, fence.ErrDamaged) {
			t.Errorf("mark %v: read back with %v", mark, err)
		}
		if _, err := g.Floor(ctx); !errors.Is(err, fence.ErrDamaged) {
			t.Errorf("mark %v: floor with %v", mark, err)
		}
		var still any
		if err := db.QueryRowContext(ctx, "SELECT mark FROM foreign_marks").Scan(&still); err != nil || fmt.Sprint(still) != fmt.Sprint(mark) {
			t.Errorf("mark %v is now %v (%v)", mark, still, err)
		}
		if err := g.Check(ctx, "another", 5); err != nil {
			t.Errorf("another resource: %v", err)
		}
	}
	exec(t, db, "DELETE FROM foreign_marks")
	exec(t, db, fmt.Sprintf("INSERT INTO foreign_marks (resource, mark) VALUES (%s, 0)", d.arg(1)), []byte("r")) // zero is none
	if err := g.CheckOnce(ctx, "r", 1); err != nil {
		t.Errorf("mark zero: %v", err)
	}
}

func ownTable(t *testing.T, d database) {
	db := d.open(t)
	d.guard(t, db, "own_table")
	for _, mark := range []any{int64(-1), int64(fence.TokenMax) + 1, nil, "soon"} {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO own_table (resource, mark) VALUES (%s, %s)", d.arg(1), d.arg(2)), []byte("r"), mark)
		if err == nil {
			t.Errorf("the table took the mark %v", mark)
		}
	}
}

func makeTogether(t *testing.T, d database) {
	var wg sync.WaitGroup
	for range 4 {
		db := d.open(t)
		for range 4 {
			wg.Go(func() {
				g, err := fence.NewSQL(db, d.dialect, "made_together")
				if err == nil {
					err = g.CreateTable(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

func withoutRights(t *testing.T, d database) {
	db := d.open(t)
	d.guard(t, db, "rights")
	exec(t, db, "CREATE ROLE clerk LOGIN")
	exec(t, db, "GRANT SELECT, INSERT, UPDATE ON rights TO clerk")
	clerk := d
	clerk.dsn = d.server.PostgresDSN("clerk")
	if err := d.guard(t, clerk.open(t), "rights").Check(t.Context(), "r", 5); err != nil {
		t.Error(err)
	}
	if _, err := fence.NewSQL(clerk.open(t), d.dialect, "no_rights"); err == nil {
		t.Error("the role may make tables: this test shows nothing")
	}
}
