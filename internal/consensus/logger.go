package consensus

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/logger"

	_ "github.com/holdfast-go/holdfast/internal/consensus/stdlog" // undoes what the import above does to the host
)

// process is the one thing that this package keeps for the whole process, because the engine's
// logger is one for the process: which groups there are, so that a line or a broken invariant
// reaches the right one.
var process = &router{groups: make(map[uint64]*member)}

// member is a group as the router knows it.
type member struct {
	log  *slog.Logger
	fail func(error)
}

// router brings the engine's log lines to the loggers of the groups, and its broken invariants to
// the groups themselves.
type router struct {
	once      sync.Once
	profiling sync.Mutex
	mu        sync.Mutex
	groups    map[uint64]*member // by replica
	// starters are the goroutines that started engines, by their number, which is never used again.
	// What was abandoned may speak long after: none is removed.
	starters map[uint64]uint64
	budget   budget
}

// enter registers a group. Two with one replica cannot run in a process, except that one which was
// abandoned may linger; the later one then has the name.
func (r *router) enter(replica uint64, m *member) {
	r.once.Do(func() {
		// It panics when the host's program, or another library in it, has set a factory of its
		// own. Then that one has the lines, and broken invariants do what it does: no worse than
		// without us.
		_ = guard(func() error { logger.SetLoggerFactory(r.make); return nil })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[replica] = m
}

func (r *router) leave(replica uint64, m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups[replica] == m {
		delete(r.groups, replica)
	}
}

func (r *router) find(replica uint64) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.groups[replica]
}

func (r *router) make(pkg string) logger.ILogger {
	return &engineLogger{router: r, pkg: pkg, named: regexp.MustCompile(`\[\d+:(\d+)\]`)}
}

// engineLogger is the logger of one package of the engine. What the engine calls a warning is
// mostly the course of an election, so its levels count one less here.
type engineLogger struct {
	router *router
	pkg    string
	named  *regexp.Regexp // "[shard:replica]" in a line
}

func (l *engineLogger) SetLevel(logger.LogLevel) {}
func (l *engineLogger) Debugf(string, ...any)    {}
func (l *engineLogger) Infof(string, ...any)     {}

func (l *engineLogger) Warningf(format string, args ...any) {
	// Said at every start, and not true: connections are this package's own.
	if strings.HasPrefix(format, "mutual TLS disabled") {
		return
	}
	l.write(slog.LevelDebug, format, args)
}

func (l *engineLogger) Errorf(format string, args ...any) {
	level := slog.LevelWarn
	// Said of every attempt while a replica is away; reach says it once.
	if strings.HasPrefix(format, "send batch failed") || strings.HasSuffix(format, "failed to get a connection to %s, %v") {
		level = slog.LevelDebug
	}
	l.write(level, format, args)
}

// Panicf is how the engine reports that it cannot go on, and it must not return. A goroutine of one
// of our engines fails its group, if that was not closed and abandoned before, and is parked. Any
// other gets the panic that it expects: one that called the engine from this package, where guard
// turns it into an error, or one of somebody else's engine.
func (l *engineLogger) Panicf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	culprits := l.router.culprits()
	if len(culprits) == 0 {
		panic(text)
	}
	for _, replica := range culprits {
		if m := l.router.find(replica); m != nil {
			m.fail(fmt.Errorf("%w: %s: %s", ErrInvariant, l.pkg, firstLine(text)))
		}
	}
	park()
}

func (l *engineLogger) write(level slog.Level, format string, args []any) {
	if !l.router.wanted(level) {
		return
	}
	ok, dropped := l.router.budget.take(time.Now())
	if !ok {
		return
	}
	text := firstLine(fmt.Sprintf(format, args...))
	if log := l.router.loggerOf(l.named.FindStringSubmatch(text)); log != nil {
		log.Log(context.Background(), level, text, "component", "raft", "engine", l.pkg, "dropped", dropped)
	}
}

// wanted reports whether any group logs at a level.
func (r *router) wanted(level slog.Level) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.groups {
		if m.log.Enabled(context.Background(), level) {
			return true
		}
	}
	return false
}

// loggerOf returns the logger of the group that a line names, else that of any group. The engine
// cuts a replica to its last digits.
func (r *router) loggerOf(named []string) (log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for replica, m := range r.groups {
		if log = m.log; named != nil && fmt.Sprintf("%05d", replica%replicaDigits) == named[1] {
			return log
		}
	}
	return log
}

// replicaDigits is the number that the engine takes replicas modulo, in its log.
const replicaDigits = 100_000

// firstLine cuts the stack that the engine prints behind an error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// budget lets some lines through per second: the engine warns about every message that it drops.
type budget struct {
	mu      sync.Mutex
	second  int64
	used    int
	dropped int
}

// linesPerSecond bounds what the engine may log in the whole process.
const linesPerSecond = 10

// take spends a line if there is one, and returns how many were dropped since the last.
func (b *budget) take(now time.Time) (ok bool, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if second := now.Unix(); second != b.second {
		b.second, b.used = second, 0
	}
	if b.used == linesPerSecond {
		b.dropped++
		return false, 0
	}
	b.used++
	dropped, b.dropped = b.dropped, 0
	return true, dropped
}
