package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// seven is a database whose every mark is 7, as far as a guard asks: the last argument of its
// statements is the highest mark that lets a token in.
type seven struct{ driver.Conn }

func (s seven) Connect(context.Context) (driver.Conn, error)                 { return s, nil }
func (s seven) Driver() driver.Driver                                        { return nil }
func (s seven) Close() error                                                 { return nil }
func (s seven) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return s, nil }
func (s seven) Commit() error                                                { return nil }
func (s seven) Rollback() error                                              { return nil }
func (s seven) CheckNamedValue(v *driver.NamedValue) (err error) {
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}
func (s seven) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	if bound, ok := args[len(args)-1].Value.(int64); !ok || bound < 7 {
		return driver.RowsAffected(0), nil
	}
	return driver.RowsAffected(1), nil
}

func (s seven) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &sevenRows{}, nil
}

type sevenRows struct{ read bool }

func (r *sevenRows) Columns() []string { return []string{"mark"} }
func (r *sevenRows) Close() error      { return nil }
func (r *sevenRows) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, row[0] = true, int64(7)
	return nil
}

// sevenRedis is a server of the same kind.
func sevenRedis(_ context.Context, _ string, _ []string, args ...any) (any, error) {
	var bound Token
	if err := bound.UnmarshalText([]byte(args[1].(string))); err != nil || bound < 7 {
		return []any{"stale", "7"}, err
	}
	return []any{"admitted", nil}, nil
}

// watched is a guard, and every way to check a token for the resource "7" with it.
type watched struct {
	observe func(func(context.Context, Checked))
	ways    map[string]func(context.Context, Token) error
}

// ways are those of every guard.
func ways(g Guard) map[string]func(context.Context, Token) error {
	return map[string]func(context.Context, Token) error{
		"Check":     func(ctx context.Context, token Token) error { return g.Check(ctx, "7", token) },
		"CheckOnce": func(ctx context.Context, token Token) error { return g.CheckOnce(ctx, "7", token) },
		"Handler": func(ctx context.Context, token Token) (err error) {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			r.Header.Set(Header, token.String())
			w := httptest.NewRecorder()
			Handler(g, func(*http.Request) string { return "7" }, http.NotFoundHandler()).ServeHTTP(w, r)
			if w.Code == http.StatusPreconditionFailed {
				err = ErrStale
			}
			return err
		},
	}
}

func watchedGuards(t *testing.T) map[string]watched {
	memory, file, redis := NewMemory(), openFile(t, filepath.Join(t.TempDir(), "marks")), NewRedis(sevenRedis, "")
	for _, g := range []Guard{memory, file} {
		if err := g.Check(t.Context(), "7", 7); err != nil {
			t.Fatal(err)
		}
	}
	db := sql.OpenDB(seven{})
	t.Cleanup(func() { db.Close() })
	table := &SQL{db: db, place: place{dialect: SQLite}, raise: "raise"}
	rows := &Rows{db: db, place: place{dialect: SQLite}}
	tx := func(ctx context.Context) *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(t.Context(), func() { _ = tx.Rollback() })
		return tx
	}
	guards := map[string]watched{
		"Memory": {memory.Observe, ways(memory)}, "File": {file.Observe, ways(file)},
		"SQL": {table.Observe, ways(table)}, "Redis": {redis.Observe, ways(redis)},
		"Rows": {rows.Observe, map[string]func(context.Context, Token) error{
			"Update":     func(ctx context.Context, token Token) error { return rows.Update(ctx, 7, token, "") },
			"UpdateOnce": func(ctx context.Context, token Token) error { return rows.UpdateOnce(ctx, 7, token, "") },
			"UpdateTx":   func(ctx context.Context, token Token) error { return rows.UpdateTx(ctx, tx(ctx), 7, token, "") },
		}},
	}
	for name, do := range map[string]func(context.Context, string, Token, func() error) error{"Memory": memory.Do, "File": file.Do} {
		guards[name].ways["Do"] = func(ctx context.Context, token Token) error {
			err := do(ctx, "7", token, func() error { return io.ErrUnexpectedEOF })
			if errors.Is(err, io.ErrUnexpectedEOF) { // of what follows the check
				return nil
			}
			return err
		}
	}
	more := guards["SQL"].ways
	more["CheckTx"] = func(ctx context.Context, token Token) error { return table.CheckTx(ctx, tx(ctx), "7", token) }
	more["CheckOnceTx"] = func(ctx context.Context, token Token) error { return table.CheckOnceTx(ctx, tx(ctx), "7", token) }
	more["Do"] = func(ctx context.Context, token Token) error {
		err := table.Do(ctx, "7", token, func(*sql.Tx) error { return io.ErrUnexpectedEOF })
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		return err
	}
	more = guards["Redis"].ways
	more["Eval"] = func(ctx context.Context, token Token) error {
		_, err := redis.Eval(ctx, "7", token, "", nil)
		return err
	}
	more["EvalOnce"] = func(ctx context.Context, token Token) error {
		_, err := redis.EvalOnce(ctx, "7", token, "", nil)
		return err
	}
	return guards
}

// A stale holder that is stopped on a way which nobody counts is a split brain that nobody hears
// of.
func TestAnObserverIsToldOfEveryCheckOnceWhateverWayItIsMade(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, true)
	var told []Checked
	tell := func(ctx context.Context, c Checked) {
		if ctx.Value(key{}) != true {
			t.Error("another context than that of the check")
		}
		told = append(told, c)
	}
	for guard, w := range watchedGuards(t) {
		w.observe(tell)
		token := Token(10)
		for way, check := range w.ways {
			told, token = nil, token+1
			_ = check(ctx, token)
			_ = check(ctx, 3)
			_ = check(ctx, TokenMax+1)
			wanted := []Checked{{"7", token, nil}, {"7", 3, ErrStale}, {"7", TokenMax + 1, ErrInvalidToken}}
			if way == "Handler" {
				wanted = wanted[:2] // it does not ask the guard about what is no token
			}
			if len(told) != len(wanted) {
				t.Errorf("%s.%s: told %v", guard, way, told)
				continue
			}
			for i, want := range wanted {
				got := told[i]
				if got.Resource != want.Resource || got.Token != want.Token || !errors.Is(got.Err, want.Err) || got.Stale() != (want.Err == ErrStale) {
					t.Errorf("%s.%s of %v: told %v", guard, way, want.Token, got)
				}
			}
		}
		w.observe(nil)
		told = nil
		for _, check := range w.ways {
			_ = check(ctx, 3)
		}
		if len(told) > 0 {
			t.Errorf("%s: told %v after the end", guard, told)
		}
	}
}

func TestObservedTellsOfTheChecksOfAnyGuard(t *testing.T) {
	t.Parallel()
	var told []Checked
	tell := func(_ context.Context, c Checked) { told = append(told, c) }
	g := Observed(Once(NewMemory()), tell)
	for _, token := range []Token{5, 5} {
		_ = g.Check(t.Context(), "r", token)
	}
	_ = g.CheckOnce(t.Context(), "r", 4)
	if len(told) != 3 || told[0].Err != nil || !told[1].Stale() || !told[2].Stale() || told[2].Token != 4 {
		t.Errorf("told %v", told)
	}
	told = nil
	failing := Observed(broken{}, tell)
	if err := failing.Check(t.Context(), "r", 5); !errors.Is(err, io.ErrUnexpectedEOF) || len(told) != 1 || told[0].Stale() || told[0].Err != err {
		t.Errorf("%v; told %v", err, told)
	}
	if err := Observed(nil, nil).Check(t.Context(), "r", 5); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestACheckThatCannotBeMadeIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	var told []Checked
	tell := func(ctx context.Context, c Checked) {
		if ctx == nil {
			t.Error("without a context")
		}
		told = append(told, c)
	}
	ctx, db := t.Context(), sql.OpenDB(unreachable{})
	defer db.Close()
	memory, file := NewMemory(), openFile(t, filepath.Join(t.TempDir(), "marks"))
	table, rows := &SQL{db: db, place: place{dialect: SQLite}}, &Rows{db: db, place: place{dialect: SQLite}}
	redis := NewRedis(nil, "")
	var none context.Context
	for i, check := range []func() error{
		func() error { return memory.Check(none, "r", 5) },
		func() error { return memory.Do(ctx, "r", 5, nil) },
		func() error { return file.Do(ctx, "r", 5, nil) },
		func() error { return table.CheckTx(ctx, nil, "r", 5) },
		func() error { return table.Do(ctx, "r", 5, nil) },
		func() error { return table.Do(ctx, "r", 5, func(*sql.Tx) error { return nil }) },
		func() error { return rows.UpdateTx(ctx, nil, "r", 5, "") },
		func() error { return redis.Check(ctx, "r", 5) },
	} {
		for _, g := range []interface {
			Observe(func(context.Context, Checked))
		}{memory, file, table, rows, redis} {
			g.Observe(tell)
		}
		told = nil
		if err := check(); err == nil || len(told) != 1 || told[0].Resource != "r" || told[0].Token != 5 || told[0].Err != err {
			t.Errorf("%d: %v, told %v", i, err, told)
		}
	}
}

// An observer that asked the guard would else wait for itself.
func TestAnObserverMayUseTheGuard(t *testing.T) {
	eachGuard(t, func(t *testing.T, g Guard) {
		marks := map[Token]Token{}
		reader := g.(interface {
			Observe(func(context.Context, Checked))
			Highest(context.Context, string) (Token, error)
			Do(context.Context, string, Token, func() error) error
		})
		reader.Observe(func(ctx context.Context, c Checked) { marks[c.Token], _ = reader.Highest(ctx, c.Resource) })
		err := errors.Join(g.Check(t.Context(), "r", 5), reader.Do(t.Context(), "r", 6, func() error { return nil }))
		if err != nil || marks[5] != 5 || marks[6] != 6 {
			t.Errorf("%v, %v", err, marks)
		}
	})
}

func ExampleMemory_Observe() {
	guard, stale := NewMemory(), 0
	guard.Observe(func(_ context.Context, c Checked) {
		if c.Stale() {
			stale++
		}
	})
	ctx, write := context.Background(), func() error { return nil }
	_ = guard.Do(ctx, "invoices", 8, write)
	_ = guard.Do(ctx, "invoices", 7, write) // of a former holder
	_ = guard.Check(ctx, "invoices", 8)
	fmt.Println(stale)
	// Output: 1
}
