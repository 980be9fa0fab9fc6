//go:build unix

// Command fencedstore shows what a fencing token is for. Three processes of a service that embeds
// holdfast edit documents under one lock: each takes the lock, reads, thinks, and writes back what
// it read with one line more. Again and again the program stops the process that holds the lock
// between its look at the lease and its writes, for longer than the lease lives, and lets it go on
// when others have written.
//
// Every line goes to four documents at the same time: two in a database and two behind HTTP, one of
// each with a guard of package fence, one without. At the end the program counts the lines that the
// service was told are written and that are in no document any more: lost updates. It exits with 0
// only if there are some without the guards and none with them.
//
//	cd examples/fencedstore && go run .
//
// The database is Postgres, started for the occasion, and SQLite where Postgres is not installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
)

func main() {
	var s service
	var o options
	s.flags(flag.CommandLine)
	flag.IntVar(&o.rounds, "rounds", 10, "how many times the holder is stopped")
	flag.StringVar(&o.database, "db", "auto", "postgres, sqlite, or auto: Postgres where it is installed")
	flag.Parse()

	o.ttl = s.ttl
	run := func(ctx context.Context) error { return show(ctx, o) }
	if s.name != "" {
		run = s.run
	}
	crew.Run("fencedstore", run)
}

type options struct {
	rounds   int
	database string
	ttl      time.Duration
}

// show runs the whole story in a temporary directory.
func show(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-fencedstore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	where, end, err := openDatabase(ctx, o.database, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	web, err := serve()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, web.close()) }()

	f := newFleet(dir, o.ttl, where, web.url)
	defer f.StopAll()
	return f.tell(ctx, o.rounds)
}

// openDatabase starts a database and makes the documents in it; end stops it.
func openDatabase(ctx context.Context, kind, dir string) (where source, end func() error, err error) {
	where, end = sqliteIn(dir), func() error { return nil }
	switch kind {
	case "sqlite":
	case "auto", "postgres":
		server, err := servers.Postgres(ctx)
		switch {
		case err == nil:
			where, end = source{fence.Postgres, "pgx", server.PostgresDSN("postgres")}, server.Close
		case kind == "postgres" || !errors.Is(err, servers.ErrNotInstalled):
			return where, nil, err
		}
	default:
		return where, nil, fmt.Errorf("no such database: %q", kind)
	}
	if err := where.makeDocuments(ctx); err != nil {
		return where, nil, errors.Join(err, end())
	}
	return where, end, nil
}
