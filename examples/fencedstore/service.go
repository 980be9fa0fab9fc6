//go:build unix

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
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

// report is a line on the standard output of a service.
type report struct {
	Event    string      `json:"event"` // ready, thinking, wrote, refused, lost
	Token    fence.Token `json:"token,omitempty"`
	Document string      `json:"document,omitempty"`
	Line     string      `json:"line,omitempty"`
}

func say(r report) { _ = json.NewEncoder(os.Stdout).Encode(r) } // without a listener it ends soon

// run is the life of the process: until its standard input ends, which happens also when its parent
// dies.
func (s *service) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := s.edit(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *service) edit(ctx context.Context) error {
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
	peers := filepath.Join(s.dir, "peers")
	c, err := holdfast.Open(ctx, holdfast.Config{
		Cluster: "fencedstore",
		Name:    s.name,
		DataDir: filepath.Join(s.dir, s.name),
		Join:    []string{"file+" + peers},
		TTL:     s.ttl,
		// Should all processes lose their data, the tokens of the new group begin above those that
		// were seen.
		TokenFloor: guard.Floor,
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer crew.Leave(c)
	if err := announce(peers, c.Addr()); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	say(report{Event: "ready"})
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
			say(report{"lost", lease.Token(), kind, line})
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", kind, err)
		}
		bodies[kind] = body
	}
	if !lease.Valid() {
		say(report{"lost", lease.Token(), "", line})
		return nil
	}
	say(report{"thinking", lease.Token(), "", line})
	select {
	case <-time.After(thinking):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, kind := range kinds() {
		err := documents[kind].write(ctx, lease.Token(), bodies[kind]+" "+line)
		switch {
		case err == nil:
			say(report{"wrote", lease.Token(), kind, line})
		case errors.Is(err, fence.ErrStale):
			say(report{"refused", lease.Token(), kind, line})
		default:
			return fmt.Errorf("write %s: %w", kind, err)
		}
	}
	return nil
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

// announce adds an address to the file that all processes join through.
func announce(path, addr string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, addr)
	return errors.Join(err, f.Close())
}
