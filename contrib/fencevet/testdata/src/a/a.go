// Package a misuses leases, and uses them well.
package a

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"os"

	"github.com/holdfast-go/holdfast"
)

type server struct {
	c     *holdfast.Cluster
	db    *sql.DB
	lease *holdfast.Lease
}

func (s *server) ignored(ctx context.Context) {
	s.c.Acquire(ctx, "a")           // want "the lease is ignored"
	_, _ = s.c.Acquire(ctx, "a")    // want "the error is ignored" "the lease is ignored"
	_, err := s.c.Acquire(ctx, "a") // want "the lease is ignored"
	_ = err
	go s.c.TryAcquire(ctx, "a")          // want "the lease is ignored"
	lease, _ := s.c.TryAcquire(ctx, "a") // want "the error is ignored"
	defer lease.Release(ctx)
}

func (s *server) neverReleased(ctx context.Context) error {
	lease, err := s.c.Acquire(ctx, "a") // want "lease is never released: defer lease.Release"
	if err != nil {
		return err
	}
	for lease.Valid() {
	}
	return nil
}

func (s *server) notDeferred(ctx context.Context) error {
	var lease, err = s.c.Acquire(ctx, "a") // want "the release of lease is not deferred"
	if err != nil || lease == nil {
		return err
	}
	work()
	return lease.Release(ctx)
}

func (s *server) deferredInALoop(ctx context.Context) error {
	for {
		lease, err := s.c.Acquire(ctx, "a")
		if err != nil {
			return err
		}
		defer lease.Release(ctx) // want "deferred in a loop"
		work()
	}
}

func (s *server) releasedInALoop(ctx context.Context) error {
	for {
		lease, err := s.c.Acquire(ctx, "a")
		if err != nil {
			return err
		}
		work()
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
}

func (s *server) deferredInAFunction(ctx context.Context) (err error) {
	lease, err := s.c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	work()
	return nil
}

func (s *server) passedOn(ctx context.Context) (*holdfast.Lease, error) {
	if _, ok := ctx.Deadline(); ok {
		return s.c.Acquire(ctx, "a")
	}
	lease, err := s.c.Acquire(ctx, "a")
	if err != nil {
		return nil, err
	}
	s.lease, err = s.c.Acquire(ctx, "b")
	third, err := s.c.Acquire(ctx, "c")
	if err != nil {
		return nil, err
	}
	cleanup(func() { third.Release(ctx) })
	return lease, err
}

func (s *server) unfenced(ctx context.Context, r *http.Request) error {
	if _, err := s.db.Exec("before the lease"); err != nil {
		return err
	}
	lease, err := s.c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	_, err = s.db.ExecContext(ctx, "UPDATE") // want "ExecContext writes under lease without its token"
	http.DefaultClient.Do(r)                 // want "Do writes under lease without its token"
	os.WriteFile("a", nil, 0)                // want "WriteFile writes under lease without its token"
	func() {
		os.Remove("a") // want "Remove writes under lease without its token"
	}()
	os.Remove("temporary") //fencevet:ok nobody else knows this file
	s.db.QueryContext(ctx, "SELECT")
	return err
}

func (s *server) afterTheRelease(ctx context.Context) error {
	for {
		lease, err := s.c.Acquire(ctx, "a")
		if err != nil {
			return err
		}
		s.db.Exec("UPDATE") // want "Exec writes under lease without its token"
		lease.Release(ctx)
		s.db.Exec("UPDATE")
	}
}

func (s *server) fenced(ctx context.Context) error {
	lease, err := s.c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	_, err = s.db.ExecContext(ctx, "UPDATE", lease.Token())
	return err
}

func (s *server) somebodyElseFences(ctx context.Context) error {
	lease, err := s.c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	check(lease)
	_, err = s.db.ExecContext(ctx, "UPDATE")
	return err
}

func (s *server) callbacks(ctx context.Context) {
	s.c.Do(ctx, "a", func(ctx context.Context, l *holdfast.Lease) error {
		_, err := s.db.Exec("UPDATE") // want "Exec writes under l without its token"
		return err
	})
	s.c.Do(ctx, "a", func(ctx context.Context, _ *holdfast.Lease) error {
		_, err := s.db.Exec("UPDATE") // want "Exec writes under the lease without its token"
		return err
	})
	s.c.Do(ctx, "a", func(ctx context.Context, l *holdfast.Lease) error {
		_, err := s.db.Exec("UPDATE", l.Token())
		return err
	})
	s.c.Do(ctx, "a", s.method)
}

func (s *server) method(ctx context.Context, l *holdfast.Lease) error {
	save() // want "save writes under l without its token"
	return nil
}

func work()                 {}
func save()                 {}
func cleanup(func())        {}
func check(*holdfast.Lease) {}
