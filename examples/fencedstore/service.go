//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

// thinking is how long the service works between reading and writing: the time in which it can be
// stopped.
const thinking = 60 * time.Millisecond

// service is one process of the fleet.
type service struct {
	name, dir string
	ttl       time.Duration
	where     source
	dialect   uint
	url       string
}

func (s *service) flags(set *flag.FlagSet) {
	set.StringVar(&s.name, "service", "", "run one process of the service under this name (used by the program itself)")
	set.StringVar(&s.dir, "dir", "", "directory of the fleet (used by the program itself)")
	set.StringVar(&s.where.driver, "driver", "", "database driver (used by the program itself)")
	set.StringVar(&s.where.dsn, "dsn", "", "database (used by the program itself)")
	set.UintVar(&s.dialect, "dialect", 0, "dialect of the database (used by the program itself)")
	set.StringVar(&s.url, "url", "", "the HTTP resource (used by the program itself)")
	set.DurationVar(&s.ttl, "ttl", time.Second, "how long a lease lives without renewal")
}

// run is the life of the process: until its standard input ends, which happens also when its parent
// dies.
func (s *service) run(ctx context.Context) error {
	db, err := sql.Open(s.where.driver, s.where.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	guard, err := fence.NewSQL(db, fence.Dialect(s.dialect), "fence")
	if err != nil {
		return err
	}
	documents := s.documents(db, guard)
	ctx, c, err := crew.Join(ctx, s.name, s.dir, func(cfg *holdfast.Config) {
		// Should all processes lose their data, the tokens of the new group begin above those that
		// were seen.
		cfg.TTL, cfg.TokenFloor = s.ttl, guard.Floor
	})
	if err != nil {
		return crew.IgnoreEnd(ctx, err)
	}
	defer crew.Leave(c)
	crew.Tell(crew.Report{Event: "ready"})
	return crew.IgnoreEnd(ctx, s.edit(ctx, c, documents))
}

// edit adds a line after the other.
func (s *service) edit(ctx context.Context, c *holdfast.Cluster, documents map[string]document) error {
	for n := 0; ; n++ {
		lease, err := c.Acquire(ctx, "documents")
		if err != nil {
			return err
		}
		err = s.addLine(ctx, lease, documents, fmt.Sprintf("%s-%d", s.name, n))
		if err := errors.Join(err, lease.Release(ctx)); err != nil && !errors.Is(err, holdfast.ErrLost) {
			return err
		}
	}
}

// addLine reads all documents, looks at its lease, thinks, and writes them. What a careful service
// can do without the resource's help, it does: it looks. (Writing under lease.Context() would end
// most of the late writes, but not those that are already on their way.)
func (s *service) addLine(ctx context.Context, lease *holdfast.Lease, documents map[string]document, line string) error {
	bodies := make(map[string]string)
	for _, kind := range kinds() {
		body, err := documents[kind].read(ctx, lease.Token())
		if errors.Is(err, fence.ErrStale) {
			tell("lost", lease, kind, line)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", kind, err)
		}
		bodies[kind] = body
	}
	if !lease.Valid() {
		tell("lost", lease, "", line)
		return nil
	}
	tell("thinking", lease, "", line)
	select {
	case <-time.After(thinking):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, kind := range kinds() {
		err := documents[kind].write(ctx, lease.Token(), bodies[kind]+" "+line)
		switch {
		case err == nil:
			tell("wrote", lease, kind, line)
		case errors.Is(err, fence.ErrStale):
			tell("refused", lease, kind, line)
		default:
			return fmt.Errorf("write %s: %w", kind, err)
		}
	}
	return nil
}

func tell(event string, lease *holdfast.Lease, document, line string) {
	crew.Tell(crew.Report{Event: event, Token: lease.Token(), Document: document, Text: line})
}

// documents are all four.
func (s *service) documents(db *sql.DB, guard *fence.SQL) map[string]document {
	client := &http.Client{Transport: fence.Transport(nil)}
	return map[string]document{
		"sql":        row{db},
		"sql+guard":  guardedRow{db, guard},
		"http":       page{client, s.url + "http"},
		"http+guard": page{client, s.url + "http+guard"},
	}
}
