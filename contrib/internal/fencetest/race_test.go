//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// journal is the guarded resource of the races: a list of who wrote, in the order of the writes,
// and the number of its entries in a second table. Each write reads the number, and writes both.
type journal struct {
	d     database
	name  string
	guard *fence.SQL
}

func (d database) journal(t *testing.T, name string) *journal {
	t.Helper()
	db := d.open(t)
	exec(t, db, fmt.Sprintf("CREATE TABLE %s_entries (n INTEGER PRIMARY KEY, token BIGINT NOT NULL, writer INTEGER NOT NULL)", name))
	exec(t, db, fmt.Sprintf("CREATE TABLE %s_count (n INTEGER NOT NULL)", name))
	exec(t, db, fmt.Sprintf("INSERT INTO %s_count (n) VALUES (0)", name))
	return &journal{d, name, d.guard(t, db, name+"_fence")}
}

// entry writes one entry in a transaction that the guard was asked in before.
func (j *journal) entry(ctx context.Context, tx *sql.Tx, token fence.Token, writer int) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM "+j.name+"_count").Scan(&n); err != nil {
		return err
	}
	statement := fmt.Sprintf("INSERT INTO %s_entries (n, token, writer) VALUES (%d, %d, %d)", j.name, n, token, writer)
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s_count SET n = %d", j.name, n+1))
	return err
}

// entries reads the journal and fails if its two tables do not agree or its tokens fall.
func (j *journal) entries(t *testing.T) (tokens []fence.Token, writers []int) {
	t.Helper()
	db := j.d.open(t)
	rows, err := db.QueryContext(t.Context(), "SELECT n, token, writer FROM "+j.name+"_entries ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n, writer int
		var token fence.Token
		if err := rows.Scan(&n, &token, &writer); err != nil {
			t.Fatal(err)
		}
		if n != len(tokens) {
			t.Errorf("entry %d has number %d", len(tokens), n)
		}
		if len(tokens) > 0 && token < tokens[len(tokens)-1] {
			t.Errorf("entry %d: token %v after %v", n, token, tokens[len(tokens)-1])
		}
		tokens, writers = append(tokens, token), append(writers, writer)
	}
	var count int
	if err := errors.Join(rows.Err(), db.QueryRowContext(t.Context(), "SELECT n FROM "+j.name+"_count").Scan(&count)); err != nil {
		t.Fatal(err)
	}
	if count != len(tokens) {
		t.Errorf("%d entries, but %d were counted", len(tokens), count)
	}
	return tokens, writers
}

// retryable are the refusals of a database that has not done anything and may be asked again: a
// deadlock, a conflict of serializable transactions.
func retryable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "SQLSTATE 40") || strings.Contains(err.Error(), "Error 1213"))
}

// race: the tokens of what was written never fall, and every write was either refused or is there
// once.
func race(t *testing.T, d database, name string) {
	const writers, connections, each = 64, 4, 3
	j := d.journal(t, name)
	guards := make([]*fence.SQL, connections)
	for i := range guards {
		guards[i] = d.guard(t, d.open(t), name+"_fence")
	}
	var mu sync.Mutex
	accepted, refused := make(map[int]int), 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				token := 1 + rand.N(fence.Token(40))
				var err error
				for again := true; again; again = retryable(err) {
					err = guards[w%connections].Do(t.Context(), "journal", token, func(tx *sql.Tx) error {
						return j.entry(t.Context(), tx, token, w)
					})
				}
				mu.Lock()
				switch {
				case err == nil:
					accepted[w]++
				case errors.Is(err, fence.ErrStale):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	tokens, by := j.entries(t)
	for _, w := range by {
		accepted[w]--
	}
	for w, n := range accepted {
		if n != 0 {
			t.Errorf("writer %d: %d more writes were accepted than are there", w, n)
		}
	}
	if len(tokens) == 0 || refused == 0 {
		t.Errorf("%d written, %d refused: this run has shown little", len(tokens), refused)
	}
	if mark, err := j.guard.Highest(t.Context(), "journal"); err != nil || mark != tokens[len(tokens)-1] {
		t.Errorf("mark %v (%v) after %v", mark, err, tokens[len(tokens)-1])
	}
}

// raceOnce: a token that two pass with CheckOnce is a write done twice.
func raceOnce(t *testing.T, d database) {
	const writers, tokens = 64, 3
	guards := []*fence.SQL{d.guard(t, d.open(t), "race_once"), d.guard(t, d.open(t), "race_once")}
	var mu sync.Mutex
	admitted := make(map[fence.Token]int)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for token := fence.Token(1); token <= tokens; token++ {
				err := guards[w%2].CheckOnce(t.Context(), "r", token)
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					admitted[token]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for token, n := range admitted {
		if n > 1 {
			t.Errorf("token %v was admitted %d times", token, n)
		}
	}
	if admitted[tokens] != 1 {
		t.Errorf("the highest token was admitted %d times", admitted[tokens])
	}
}

// rowRace is the race for the one-statement form: each write adds its token to a text.
func rowRace(t *testing.T, d database) {
	const writers, each = 64, 3
	db := d.open(t)
	exec(t, db, "CREATE TABLE row_race (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)")
	exec(t, db, "INSERT INTO row_race (id, body) VALUES (7, '')")
	add := "body = body || "
	if d.dialect == fence.MySQL {
		add = "body = CONCAT(body, %s)"
	}
	if d.dialect != fence.MySQL {
		add += "%s"
	}
	var rows []*fence.Rows
	for range 4 {
		r, err := fence.NewRows(d.open(t), d.dialect, "row_race", "id", "fence")
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	var mu sync.Mutex
	accepted, refused := make(map[string]int), 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				token := 1 + rand.N(fence.Token(40))
				id := fmt.Sprintf("%d:%d.%d", token, w, i)
				err := rows[w%len(rows)].Update(t.Context(), 7, token, fmt.Sprintf(add, d.arg(1)), id+" ")
				mu.Lock()
				switch {
				case err == nil:
					accepted[id]++
				case errors.Is(err, fence.ErrStale):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var body string
	if err := db.QueryRowContext(t.Context(), "SELECT body FROM row_race").Scan(&body); err != nil {
		t.Fatal(err)
	}
	var last fence.Token
	for _, id := range strings.Fields(body) {
		number, _, _ := strings.Cut(id, ":")
		var token fence.Token
		if err := token.UnmarshalText([]byte(number)); err != nil || token < last {
			t.Errorf("token %s after %v (%v)", number, last, err)
		}
		last = token
		accepted[id]--
	}
	for id, n := range accepted {
		if n != 0 {
			t.Errorf("%s: accepted, less written: %d", id, n)
		}
	}
	if refused == 0 || last == 0 {
		t.Errorf("%d refused, last token %v: this run has shown little", refused, last)
	}
}
