// Package migratelock gives a database driver of golang-migrate
// (github.com/golang-migrate/migrate/v4) a Holdfast lock in the place of its own: of a fleet that
// starts together one process migrates, and the others wait. The lock is no session of the
// database, so a pooler such as PgBouncer cannot leave it behind.
//
//	locked := migratelock.New(driver, cluster, "schema") // driver: database.Open, or WithInstance of its package
//	m, err := migrate.NewWithInstance("iofs", source, "app", locked)
//	err = m.Up()
//
// golang-migrate can neither be stopped in the middle of a migration, nor does it run a migration
// and note its version in one transaction. After a loss that was noticed nothing further is begun,
// and the version stays dirty. A process that has lost its lease and does not know it yet can still
// write.
package migratelock
