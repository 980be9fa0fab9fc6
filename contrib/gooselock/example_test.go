//go:build unix

package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/gooselock"
)

// Two instances of a service start, each with its own node in a real fleet; here they share one.
func Example() {
	ctx := context.Background()
	cluster, err := holdfast.Open(ctx, holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	migrations := fstest.MapFS{ // in a program: embed.FS
		"1_users.sql": {Data: []byte("-- +goose Up\nCREATE TABLE users (id INTEGER);")},
		"2_names.sql": {Data: []byte("-- +goose Up\nALTER TABLE users ADD COLUMN name TEXT;")},
	}
	for range 2 {
		locker := gooselock.New(cluster, "schema")
		provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx, cancel := gooselock.Context(ctx)
		defer cancel()
		results, err := provider.Up(ctx)
		fmt.Println(len(results), err)
	}
	// Output:
	// 2 <nil>
	// 0 <nil>
}
