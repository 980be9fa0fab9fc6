//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// together: a mark without its write would shut out the holder, a write without its mark lets the
// former in.
func together(t *testing.T, d database) {
	j, ctx := d.journal(t, "together"), t.Context()
	write := func(token fence.Token, end error) error {
		return j.guard.Do(ctx, "journal", token, func(tx *sql.Tx) error {
			return errors.Join(j.entry(ctx, tx, token, 0), end)
		})
	}
	want := func(mark fence.Token, entries int) {
		t.Helper()
		tokens, _ := j.entries(t)
		if got, err := j.guard.Highest(ctx, "journal"); err != nil || got != mark || len(tokens) != entries {
			t.Errorf("mark %v (%v), %d entries; want %v and %d", got, err, len(tokens), mark, entries)
		}
	}
	if err := write(5, nil); err != nil {
		t.Error(err)
	}
	want(5, 1)
	if err := write(9, io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	want(5, 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = j.guard.Do(ctx, "journal", 9, func(tx *sql.Tx) error {
			_ = j.entry(ctx, tx, 9, 0)
			panic("in the middle")
		})
	}()
	want(5, 1)
	wantStale(t, write(4, nil), "journal", 4, 5)
	want(5, 1)

	tx := begin(t, j.d.open(t))
	if err := j.guard.CheckOnceTx(ctx, tx, "journal", 6); err != nil {
		t.Error(err)
	}
	wantStale(t, j.guard.CheckOnceTx(ctx, tx, "journal", 6), "journal", 6, 6)
	if err := errors.Join(j.guard.CheckTx(ctx, tx, "journal", 6), tx.Commit()); err != nil {
		t.Error(err)
	}
	want(6, 1)
	if err := j.guard.CheckTx(ctx, nil, "journal", 7); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("without a transaction: %v", err)
	}
	if err := j.guard.Do(ctx, "journal", 7, nil); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("without a function: %v", err)
	}
}

// shutOut: while the transaction of one holder is open, that of another waits, and then sees its
// mark. Were it not so, the former could pass the check, and write after the next one has read.
func shutOut(t *testing.T, d database) {
	for name, tokens := range map[string][2]fence.Token{"the next holder": {5, 9}, "the former one": {9, 5}} {
		resource, ctx := name, t.Context()
		impatient := d // a driver of SQLite does not hear of the context's end before the busy timeout
		impatient.dsn = strings.Replace(d.dsn, "busy_timeout(60000)", "busy_timeout(100)", 1)
		db, other := d.open(t), impatient.open(t)
		g := d.guard(t, db, "shut_out")
		if err := g.Check(ctx, resource, 1); err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db)
		if err := g.CheckTx(ctx, tx, resource, tokens[0]); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		waiting, err := other.BeginTx(soon, nil)
		if err == nil {
			err = d.guard(t, other, "shut_out").CheckTx(soon, waiting, resource, tokens[1])
			_ = waiting.Rollback()
		}
		cancel()
		if err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s did not wait for the other's transaction: %v", name, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		err = g.Check(ctx, resource, tokens[1])
		if tokens[1] < tokens[0] {
			wantStale(t, err, resource, tokens[1], tokens[0])
		} else if err != nil {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
}

// The report of a check came before fn, in its transaction: an observer that asked for the mark
// waited for ever for the only connection.
func observed(t *testing.T, d database) {
	db := d.open(t)
	db.SetMaxOpenConns(1)
	g := d.guard(t, db, "observed")
	var marks []fence.Token
	g.Observe(func(ctx context.Context, c fence.Checked) {
		mark, err := g.Highest(ctx, c.Resource)
		if err != nil {
			t.Error(err)
		}
		marks = append(marks, mark)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nothing := func(*sql.Tx) error { return nil }
	if err := g.Do(ctx, "r", 6, nothing); err != nil {
		t.Error(err)
	}
	wantStale(t, g.Do(ctx, "r", 5, nothing), "r", 5, 6)
	if err := g.Do(ctx, "r", 7, func(*sql.Tx) error { return io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	if !slices.Equal(marks, []fence.Token{6, 6, 6}) { // the last one was rolled back
		t.Errorf("the observer saw the marks %v", marks)
	}
}
