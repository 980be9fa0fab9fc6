package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/statemachine"

	_ "github.com/holdfast-go/holdfast/internal/consensus/preinit" // undoes what the import above does to the host
	"github.com/holdfast-go/holdfast/internal/sparse"
)

// process is this package's only variable of the whole process, because the engine has one logger
// for all groups in it.
var process = newRouter()

// linesPerSecond bounds the engine's log lines in the whole process: it warns about each dropped
// message.
const linesPerSecond = 10

func newRouter() *router {
	return &router{groups: make(map[uint64][]*member), lines: sparse.Lines{Most: linesPerSecond, Period: time.Second}}
}

// member is a group of the router.
type member struct {
	log  *slog.Logger
	fail func(error)
}

// router brings the engine's log lines to the loggers of the groups, and broken invariants to the
// groups.
type router struct {
	once      sync.Once
	profiling sync.Mutex
	mu        sync.Mutex
	groups    map[uint64][]*member // by replica
	// starters are the goroutines that started engines, by number, which is never used again. An
	// abandoned engine may log long after, so none is removed.
	starters map[uint64]uint64
	lines    sparse.Lines
}

// Enter registers the group of a replica until leave is called. A process cannot run two groups
// with one replica, but an abandoned one may linger, and two directories may be copies: what fails one of
// them fails all, for none may wait for an engine that cannot go on.
func Enter(replica uint64, log *slog.Logger, fail func(error)) (leave func()) {
	r, m := process, &member{log: log, fail: fail}
	r.once.Do(func() {
		// It panics if the program, or another library in it, has set a factory of its own. Then
		// that one receives the lines and the broken invariants.
		_ = Guard(func() error { logger.SetLoggerFactory(r.make); return nil })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[replica] = append(r.groups[replica], m)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		others := slices.DeleteFunc(slices.Clone(r.groups[replica]), func(other *member) bool { return other == m })
		if r.groups[replica] = others; len(others) == 0 {
			delete(r.groups, replica)
		}
	}
}

func (r *router) find(replica uint64) []*member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.groups[replica]
}

func (r *router) make(pkg string) logger.ILogger {
	return &engineLogger{router: r, pkg: pkg, named: regexp.MustCompile(`\[\d+:(\d+)\]`)}
}

// engineLogger is the logger of one package of the engine. Its levels count one less here: most of
// the engine's warnings are the course of an election.
type engineLogger struct {
	router *router
	pkg    string
	named  *regexp.Regexp // "[shard:replica]" in a line
}

func (l *engineLogger) SetLevel(logger.LogLevel) {}
func (l *engineLogger) Debugf(string, ...any)    {}
func (l *engineLogger) Infof(string, ...any)     {}

func (l *engineLogger) Warningf(format string, args ...any) {
	// The engine logs this at each start. It is not true: connections are this package's own.
	if strings.HasPrefix(format, "mutual TLS disabled") {
		return
	}
	l.write(slog.LevelDebug, format, args)
}

func (l *engineLogger) Errorf(format string, args ...any) {
	level := slog.LevelWarn
	switch {
	case strings.HasPrefix(format, "send batch failed"), strings.HasSuffix(format, "failed to get a connection to %s, %v"):
		level = slog.LevelDebug // for each attempt while a replica is away; wire logs it once
	case slices.ContainsFunc(args, isStopped):
		level = slog.LevelDebug // a group was closed while it wrote a snapshot
	}
	l.write(level, format, args)
}

func isStopped(arg any) bool {
	err, _ := arg.(error)
	return errors.Is(err, statemachine.ErrSnapshotStopped)
}

// Panicf reports that the engine cannot go on, and must not return. A goroutine of one of our
// engines fails its group, unless that was closed and abandoned before, and is parked. Any other
// goroutine panics as it expects: one that called the engine from this package, inside Guard, or
// one of another library's engine.
func (l *engineLogger) Panicf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	culprits := l.router.culprits()
	if len(culprits) == 0 {
		panic(text)
	}
	for _, replica := range culprits {
		for _, m := range l.router.find(replica) {
			m.fail(fmt.Errorf("%w: %s: %s", ErrInvariant, l.pkg, firstLine(text)))
		}
	}
	Park()
}

func (l *engineLogger) write(level slog.Level, format string, args []any) {
	if !l.router.wanted(level) {
		return
	}
	dropped, ok := l.router.lines.Take(time.Now())
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
	enabled := func(m *member) bool { return m.log.Enabled(context.Background(), level) }
	for _, all := range r.groups {
		if slices.ContainsFunc(all, enabled) {
			return true
		}
	}
	return false
}

// loggerOf returns the logger of the group that a line names, by the last digits of its replica, or
// else that of any group.
func (r *router) loggerOf(named []string) (log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for replica, all := range r.groups {
		if log = all[len(all)-1].log; named != nil && fmt.Sprintf("%05d", replica%replicaDigits) == named[1] {
			return log
		}
	}
	return log
}

// replicaDigits is the modulus of replicas in the engine's log.
const replicaDigits = 100_000

// firstLine cuts off the stack that the engine prints after an error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
