// Package gooselock locks the migrations of goose (github.com/pressly/goose/v3) with a Holdfast
// lock: of a fleet that starts together one process migrates, and the others wait for it and then
// find nothing to do. The lock is no session of the database, so it works behind PgBouncer, and
// with databases that have no lock to offer, SQLite for one.
//
//	locker := gooselock.New(cluster, "schema")
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithLocker(locker))
//	ctx, cancel := gooselock.Context(ctx)
//	defer cancel()
//	results, err := provider.Up(ctx)
//
// A process that has lost its lease and does not know it yet can still write. Context ends what
// follows a loss that was noticed; Locker.Fence makes the database refuse the rest.
package gooselock
