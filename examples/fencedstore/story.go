//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	formTime  = 30 * time.Second // for three processes to find each other and form a group
	slack     = 10 * time.Second // by which a dead holder's lock may be granted later than its TTL
	meanwhile = 3                // lines that others write while the holder is stopped

)

// fleet is the processes that edit the documents.
type fleet struct {
	*crew.Crew
	ttl   time.Duration
	where source
	url   string
}

func newFleet(dir string, ttl time.Duration, where source, url string) *fleet {
	team := crew.New(dir, "-ttl", ttl.String(), "-url", url, "-driver", where.driver, "-dsn", where.dsn, "-dialect", fmt.Sprint(uint(where.dialect)))
	return &fleet{team, ttl, where, url}
}

// tell plays the story and says what was lost; an error means that it is not the one that was
// promised.
func (f *fleet) tell(ctx context.Context, rounds int) error {
	f.Say("three processes edit four documents, two of them in %v; leases live %v", f.where.dialect, f.ttl)
	names := []string{"amber", "birch", "cedar"}
	if err := f.Start(names...); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := f.Wait(ctx, name+" to be ready", 0, formTime, func(e crew.Report) bool { return e.From == name && e.Event == "ready" }); err != nil {
			return err
		}
	}
	late := 0
	for tries := 0; late < rounds; tries++ {
		if tries == 3*rounds {
			return fmt.Errorf("only %d of %d stops came between the look at the lease and the write", late, tries)
		}
		hit, err := f.round(ctx)
		if err != nil {
			return err
		}
		if hit {
			late++
		}
	}
	f.StopAll()
	return f.count(ctx, late)
}

// round stops a process that is about to write until others have written, and lets it go on. It
// reports whether the process wrote after that.
func (f *fleet) round(ctx context.Context) (bool, error) {
	stopped, err := f.Wait(ctx, "a holder that thinks", f.Mark(), f.ttl+slack, func(e crew.Report) bool { return e.Event == "thinking" })
	if err != nil {
		return false, err
	}
	if err := f.Process(stopped.From).Signal(syscall.SIGSTOP); err != nil {
		return false, err
	}
	mark := f.Mark()
	others := 0
	_, err = f.Wait(ctx, "the next holders to write", mark, f.ttl+slack, func(e crew.Report) bool {
		if e.Event == "wrote" && e.Document == "http+guard" && e.From != stopped.From { // the last of the four
			others++
		}
		return others == meanwhile
	})
	if err != nil { // it may have been stopped within a transaction, which the others then wait for
		f.Say("%s: %v; it goes on", stopped.From, err)
	}
	mark = f.Mark()
	if err := f.Process(stopped.From).Signal(syscall.SIGCONT); err != nil {
		return false, err
	}
	e, err := f.Wait(ctx, stopped.From+" to go on", mark, slack, func(e crew.Report) bool {
		return e.From == stopped.From && (e.Text != stopped.Text || e.Document == "http+guard")
	})
	hit := e.Text == stopped.Text
	if err == nil && hit {
		f.Say("%s was stopped with token %d before it wrote; %s", stopped.From, stopped.Token, f.fate(mark, stopped))
	}
	return hit, err
}

// fate says what became of the late writes.
func (f *fleet) fate(mark int, stopped crew.Report) string {
	var wrote, refused []string
	for _, e := range f.Since(mark) {
		if e.From == stopped.From && e.Text == stopped.Text {
			switch e.Event {
			case "wrote":
				wrote = append(wrote, e.Document)
			case "refused":
				refused = append(refused, e.Document)
			}
		}
	}
	return fmt.Sprintf("its late write was taken by %s, refused by %s", list(wrote), list(refused))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " and ")
}

// count compares what the service was told with what the documents hold.
func (f *fleet) count(ctx context.Context, late int) error {
	db, err := sql.Open(f.where.driver, f.where.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Printf("\n%d times the holder was stopped for longer than its lease lives. Of the lines that were written were lost:\n", late)
	var wrong []error
	for _, kind := range kinds() {
		body, err := f.body(ctx, db, kind)
		if err != nil {
			return err
		}
		told, lost, refused := f.compare(kind, body)
		fmt.Printf("  %-11s %4d of %4d, %2d %%   (%d writes refused)\n", kind, lost, told, 100*lost/max(told, 1), refused)
		guarded := strings.HasSuffix(kind, "+guard")
		switch {
		case guarded && lost > 0:
			wrong = append(wrong, fmt.Errorf("%s lost %d lines", kind, lost))
		case guarded && refused < late:
			wrong = append(wrong, fmt.Errorf("%s refused %d of %d late writes", kind, refused, late))
		case !guarded && lost == 0:
			wrong = append(wrong, fmt.Errorf("%s lost nothing: the story did not happen", kind))
		}
	}
	return errors.Join(wrong...)
}

func (f *fleet) body(ctx context.Context, db *sql.DB, kind string) (string, error) {
	if strings.HasPrefix(kind, "sql") {
		return load(ctx, db, kind)
	}
	client := &http.Client{Transport: fence.Transport(nil)}
	return page{client, f.url + kind}.read(ctx, fence.TokenMax) // nobody writes any more
}

// compare counts the lines that were reported as written, those of them that body lacks, and
// refusals.
func (f *fleet) compare(kind, body string) (told, lost, refused int) {
	there := make(map[string]bool)
	for _, line := range strings.Fields(body) {
		there[line] = true
	}
	for _, e := range f.Since(0) {
		switch {
		case e.Document != kind:
		case e.Event == "refused":
			refused++
		case e.Event == "wrote":
			told++
			if !there[e.Text] {
				lost++
			}
		}
	}
	return told, lost, refused
}
