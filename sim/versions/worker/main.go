// Command worker is one node of a fleet whose nodes are of several versions. It works as a service
// would, appends what it was granted to a journal that all of the fleet share, and says on its standard
// output what becomes of it. It ends with its standard input. It is compiled against each version, so it
// uses what all of them have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

const (
	pause = 5 * time.Millisecond // of each holder
	ttl   = 15 * time.Second
	// longer is the TTL of clients: while all nodes stop at one moment, the last may wait for a TTL of its
	// own lease, and no lease of a process that lives may be lost meanwhile.
	longer = 3 * ttl
	brief  = 3 * time.Second // of what a process that ends still asks for
)

type worker struct {
	c       *holdfast.Cluster
	life    string // of this process
	journal *os.File
	say     sync.Mutex
	grants  atomic.Int64
}

func main() {
	name, dir := flag.String("name", "", "of the node"), flag.String("dir", "", "data directory; none: a client")
	peers, journal := flag.String("peers", "", "file of addresses"), flag.String("journal", "", "file of what happened")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	w := &worker{life: fmt.Sprint(*name, "#", os.Getpid())}
	if err := w.run(ctx, *name, *dir, *peers, *journal); err != nil {
		w.tell("refused %v", err)
		os.Exit(1)
	}
	w.tell("closed")
}

// tell says one line to the test.
func (w *worker) tell(format string, args ...any) {
	w.say.Lock()
	defer w.say.Unlock()
	fmt.Printf(format+"\n", args...)
}

// note appends a line to the journal: of one machine, in the order in which it happened.
func (w *worker) note(format string, args ...any) {
	if _, err := fmt.Fprintf(w.journal, format+" "+w.life+"\n", args...); err != nil {
		w.tell("fault writing the journal: %v", err)
	}
}

func (w *worker) run(ctx context.Context, name, dir, peers, journal string) (err error) {
	if w.journal, err = os.OpenFile(journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	cfg := holdfast.Config{
		Name: name, DataDir: dir, ClientOnly: dir == "", Join: []string{"file+" + peers}, Bootstrap: 3, TTL: ttl,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if dir == "" {
		cfg.Bootstrap, cfg.TTL = 0, longer
	}
	env := simenv.Env{LevelPause: time.Second, SnapshotEvery: 300, SnapshotKeep: 100}
	if w.c, err = holdfast.Open(simenv.With(context.Background(), env), cfg); err != nil {
		return err
	}
	if dir != "" {
		f, err := os.OpenFile(peers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprintln(f, w.c.Addr())
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := w.c.Ready(ctx); err != nil {
		return errors.Join(err, w.c.Close())
	}
	w.tell("ready")
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { w.locks(ctx, fmt.Sprint("lock", i)) })
	}
	for _, f := range []func(context.Context){w.holds, w.leads, w.runs, w.watches} {
		all.Go(func() { f(ctx) })
	}
	all.Wait()
	return w.c.Close()
}

// fault tells of an error that no version may cause; ctx's end is none.
func (w *worker) fault(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.tell("fault %s: %v", what, err)
	}
}

// granted notes a grant, and that it ends.
func (w *worker) granted(l *holdfast.Lease, during func() error) error {
	w.note("grant %s %d", l.Name(), l.Token())
	err := during()
	if !l.Valid() {
		err = errors.Join(err, l.Err())
	}
	w.note("end %s %d", l.Name(), l.Token())
	if n := w.grants.Add(1); n%10 == 0 {
		w.tell("beat %d", n)
	}
	return err
}

// locks takes a lock that the others want, too, and counts in its value.
func (w *worker) locks(ctx context.Context, name string) {
	for ctx.Err() == nil {
		l, err := w.c.Acquire(ctx, name)
		if err != nil {
			w.fault(ctx, "acquiring "+name, err)
			return
		}
		err = w.granted(l, func() error {
			n := 0
			if v := l.Value(); len(v) > 0 {
				if n, err = strconv.Atoi(string(v)); err != nil {
					return err
				}
			}
			if err := l.Set(ctx, []byte(strconv.Itoa(n+1))); err != nil {
				return err
			}
			w.note("value %s %d", name, n+1)
			time.Sleep(pause)
			return nil
		})
		w.fault(ctx, "holding "+name, err)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), brief)
		err = l.Release(within)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded): // of a fleet that restarts; the group has it all the same
		case errors.Is(err, holdfast.ErrUnknownOutcome): // the answer was lost, and 16 others have had the lock since
		default:
			w.fault(ctx, "releasing "+name, err)
		}
	}
}

// holds keeps one lease for as long as the process lives.
func (w *worker) holds(ctx context.Context) {
	l, err := w.c.Acquire(ctx, "held-"+w.life)
	if err != nil {
		w.fault(ctx, "acquiring", err)
		return
	}
	select {
	case <-l.Done():
		w.fault(ctx, "a lease of a process that lives was lost", l.Err())
	case <-ctx.Done():
	}
}

// leads is leader for a moment, again and again.
func (w *worker) leads(ctx context.Context) {
	err := w.c.Lead(ctx, "leader", func(_ context.Context, l *holdfast.Lease) error {
		err := w.granted(l, func() error { time.Sleep(pause); return nil })
		w.fault(ctx, "leading", err)
		return nil
	})
	w.fault(ctx, "campaigning", err)
}

// runs runs keys, each once in the life of the fleet. It begins with the first one: the group knows
// which are finished.
func (w *worker) runs(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint("key", i)
		r, err := w.c.Once(ctx, key, func(_ context.Context, l *holdfast.Lease) error {
			w.note("ran %s %d", key, l.Token())
			return nil
		}, holdfast.WithWait())
		w.fault(ctx, "running "+key, err)
		if err == nil && r.Ran {
			w.note("finished %s %d", key, r.Token)
			time.Sleep(4 * pause)
		}
	}
}

// watches tells of the feature level and of the raft leadership, as they change.
func (w *worker) watches(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		st := w.c.Status()
		if now := fmt.Sprintf("level %d %v", st.Level, st.RaftLeader == st.ID); now != said {
			said = now
			w.tell("%s", now)
		}
		time.Sleep(pause)
	}
}
