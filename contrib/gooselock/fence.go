package gooselock

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-go/holdfast/fence"
)

// Fence returns a store for goose.WithStore that also checks the fencing token of the locker's
// lease, with a guard whose table is in the database that is migrated. A migration in a
// transaction, which is goose's default, is then committed by the current holder or rolled back
// with a *fence.StaleError, however long its process was stopped:
//
//   - Before a holder reads which versions are applied, it raises the mark. That waits for the
//     transaction of a former holder which is about to commit, so what it has applied is seen, and
//     refuses those that come later.
//   - Each migration checks the token in its own transaction, before the version is written.
//
// The guard needs a connection of its own beside the provider's: a pool of one waits for ever.
// Migrations without a transaction are checked too, but after they have run. Calls without the
// lock, such as HasPending, are not checked.
func (l *Locker) Fence(store database.Store, guard *fence.SQL) database.Store {
	return &fencedStore{Store: store, locker: l, guard: guard}
}

type fencedStore struct {
	database.Store
	locker *Locker
	guard  *fence.SQL
}

func (s *fencedStore) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	if err := s.check(ctx, db); err != nil {
		return err
	}
	return s.Store.Insert(ctx, db, req)
}

func (s *fencedStore) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	if err := s.check(ctx, db); err != nil {
		return err
	}
	return s.Store.Delete(ctx, db, version)
}

func (s *fencedStore) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	if err := s.check(ctx, db); err != nil {
		return nil, err
	}
	return s.Store.GetMigration(ctx, db, version)
}

func (s *fencedStore) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	if err := s.check(ctx, db); err != nil {
		return 0, err
	}
	return s.Store.GetLatestVersion(ctx, db)
}

func (s *fencedStore) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	if err := s.check(ctx, db); err != nil {
		return nil, err
	}
	return s.Store.ListMigrations(ctx, db)
}

// TableExists is that of the store: goose looks for it behind database.Store.
func (s *fencedStore) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	if extended, ok := s.Store.(database.StoreExtender); ok {
		return extended.TableExists(ctx, db)
	}
	return false, errors.ErrUnsupported
}

// check asks the guard in db if that is a transaction, else in a transaction of its own.
func (s *fencedStore) check(ctx context.Context, db database.DBTxConn) error {
	token := s.locker.Token()
	if token == 0 { // the call does not lock
		return nil
	}
	if tx, ok := db.(*sql.Tx); ok {
		return s.guard.CheckTx(ctx, tx, s.locker.name, token)
	}
	return s.guard.Check(ctx, s.locker.name, token)
}
