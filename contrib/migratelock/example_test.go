//go:build unix

package migratelock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/migratelock"
)

// Two instances of a service start, each with its own node in a real fleet; here they share one.
func Example() {
	cluster, err := holdfast.Open(context.Background(), holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	files := fstest.MapFS{ // in a program: embed.FS
		"1_users.up.sql": {Data: []byte("CREATE TABLE users (id INTEGER)")},
		"2_names.up.sql": {Data: []byte("ALTER TABLE users ADD COLUMN name TEXT")},
	}
	keep, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keep.Close()
	if err := keep.Ping(); err != nil { // the database lives as long as a connection to it
		fmt.Println(err)
		return
	}
	for range 2 {
		db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
		if err != nil {
			fmt.Println(err)
			return
		}
		driver, err := sqlite.WithInstance(db, &sqlite.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		source, err := iofs.New(files, ".")
		if err != nil {
			fmt.Println(err)
			return
		}
		m, err := migrate.NewWithInstance("iofs", source, "sqlite", migratelock.New(driver, cluster, "schema"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(m.Up())
		if err := errors.Join(m.Close()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// <nil>
	// no change
}
