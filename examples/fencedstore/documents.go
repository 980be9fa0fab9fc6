//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/holdfast-go/holdfast/fence"
)

// document is one that the service edits: a list of lines, separated by spaces. The token is that
// of the lease under which it is read and written; documents without a guard do not ask for it.
type document interface {
	read(ctx context.Context, t fence.Token) (body string, err error)
	write(ctx context.Context, t fence.Token, body string) error // errors.Is fence.ErrStale: refused
}

// kinds are the four documents, each with its twin.
func kinds() []string { return []string{"sql", "sql+guard", "http", "http+guard"} }

// source is a database.
type source struct {
	dialect     fence.Dialect
	driver, dsn string
}

func sqliteIn(dir string) source {
	return source{fence.SQLite, "sqlite", "file:" + filepath.Join(dir, "documents.db") +
		"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_txlock=immediate"}
}

func (s source) makeDocuments(ctx context.Context) error {
	db, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE documents (name VARCHAR(20) PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO documents (name, body) VALUES ('sql', ''), ('sql+guard', '')"); err != nil {
		return err
	}
	_, err = fence.NewSQL(db, s.dialect, "fence")
	return err
}

// row is a document in the database without a guard.
type row struct{ db *sql.DB }

func (d row) read(ctx context.Context, _ fence.Token) (string, error) { return load(ctx, d.db, "sql") }

func (d row) write(ctx context.Context, _ fence.Token, body string) error {
	return save(ctx, d.db, "sql", body)
}

// guardedRow is its twin. The first thing in each transaction is the guard. Reading asks it too:
// from then on the former holder's writes are refused, so what was read stays as it is.
type guardedRow struct {
	db    *sql.DB
	guard *fence.SQL
}

func (d guardedRow) read(ctx context.Context, t fence.Token) (body string, err error) {
	err = d.guard.Do(ctx, "documents", t, func(tx *sql.Tx) error {
		body, err = load(ctx, tx, "sql+guard")
		return err
	})
	return body, err
}

func (d guardedRow) write(ctx context.Context, t fence.Token, body string) error {
	return d.guard.Do(ctx, "documents", t, func(tx *sql.Tx) error { return save(ctx, tx, "sql+guard", body) })
}

// queries is *sql.DB or *sql.Tx.
type queries interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func load(ctx context.Context, q queries, name string) (body string, err error) {
	err = q.QueryRowContext(ctx, "SELECT body FROM documents WHERE name = $1", name).Scan(&body)
	return body, err
}

func save(ctx context.Context, q queries, name, body string) error {
	_, err := q.ExecContext(ctx, "UPDATE documents SET body = $1 WHERE name = $2", body, name)
	return err
}

// page is a document behind HTTP. The client's Transport sends the token of the context, to the
// page without a guard too, which does not look.
type page struct {
	client *http.Client
	url    string
}

func (d page) read(ctx context.Context, t fence.Token) (string, error) {
	return d.do(ctx, t, http.MethodGet, "")
}

func (d page) write(ctx context.Context, t fence.Token, body string) error {
	_, err := d.do(ctx, t, http.MethodPut, body)
	return err
}

func (d page) do(ctx context.Context, t fence.Token, method, body string) (_ string, err error) {
	r, err := http.NewRequestWithContext(fence.NewContext(ctx, t), method, d.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := fence.ResponseError(resp); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s: %s", method, d.url, resp.Status)
	}
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}
