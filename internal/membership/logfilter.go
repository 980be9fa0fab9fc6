package membership

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	logBurst  = 10 // lines in each period
	logPeriod = 20 * time.Second
)

// Lines of memberlist with news that its interfaces lack. A test compares them with the memberlist
// of go.mod.
const (
	lineSuspect    = "Suspect "
	lineSuspectEnd = " has failed, no acks received"
	lineNoUDP      = "Was able to connect to "
	lineNoUDPEnd   = " over TCP but UDP probes failed, network may be misconfigured"
)

// ordinary are the beginnings of warnings that every restart or pause of a member causes: a probe
// without an answer, the successor at its address, the refutation of its death, a stream without a
// byte. Memberlist reports suspect and failed members at info level as well, and the carrier
// reports bad streams. A test compares these lines, too.
func ordinary() []string {
	return []string{
		"Got ping for unexpected node ",
		"Failed fallback TCP ping: ",
		"Refuting a suspect message ",
		"Refuting a dead message ",
		"Push/Pull with ",
		`discarding stream with unacceptable label "":`,
		"failed to receive and remove the stream label header: ",
	}
}

// logFilter turns memberlist's log lines into slog records. Records above debug level are limited
// in rate: strangers can make memberlist warn at will.
type logFilter struct {
	logger  *slog.Logger
	suspect func(name string)              // a probe of the member had no answer
	noUDP   func(name string) (again bool) // … but a probe over TCP had; the first time may be chance

	mu      sync.Mutex
	saidUDP bool // UDP is blocked
	silent  bool

	lines    sparse.Lines
	refusals sparse.Lines // apart, so that strangers do not suppress other lines
}

func newLogFilter(logger *slog.Logger) *logFilter {
	return &logFilter{
		logger:   logger,
		suspect:  func(string) {},
		noUDP:    func(string) bool { return false },
		lines:    sparse.Lines{Most: logBurst, Period: logPeriod},
		refusals: sparse.Lines{Most: logBurst, Period: logPeriod},
	}
}

// Write receives one line of memberlist; it is a log.Logger's output.
func (f *logFilter) Write(line []byte) (int, error) {
	level, text := splitLine(string(line))
	if name, ok := between(text, lineSuspect, lineSuspectEnd); ok {
		f.suspect(name)
	}
	if name, ok := between(text, lineNoUDP, lineNoUDPEnd); ok {
		if f.noUDP(name) {
			f.reportNoUDP(text)
		}
		level = slog.LevelDebug
	}
	if strings.Contains(text, errRefused.Error()) || isOrdinary(text) { // the carrier has reported its refusals
		level = slog.LevelDebug
	}
	f.record(&f.lines, level, text)
	return len(line), nil
}

// drop reports an event that strangers can cause.
func (f *logFilter) drop(text string, args ...any) {
	f.record(&f.refusals, slog.LevelWarn, text, args...)
}

func (f *logFilter) record(limit *sparse.Lines, level slog.Level, text string, args ...any) {
	f.mu.Lock()
	silent := f.silent
	f.mu.Unlock()
	if silent || !f.logger.Enabled(context.Background(), level) {
		return
	}
	if level >= slog.LevelInfo {
		dropped, ok := limit.Take(time.Now())
		if !ok {
			return
		}
		if dropped > 0 {
			args = append(args, "dropped", dropped)
		}
	}
	f.logger.Log(context.Background(), level, "gossip: "+text, args...)
}

// reportNoUDP warns once, at any rate of other lines.
func (f *logFilter) reportNoUDP(text string) {
	f.mu.Lock()
	first := !f.saidUDP && !f.silent
	f.saidUDP = f.saidUDP || first
	f.mu.Unlock()
	if first {
		f.logger.Warn("gossip: " + text)
	}
}

// silence ends the logging: memberlist warns about its own shutdown.
func (f *logFilter) silence() {
	f.mu.Lock()
	f.silent = true
	f.mu.Unlock()
}

// splitLine splits "[WARN] memberlist: text".
func splitLine(line string) (slog.Level, string) {
	line = strings.TrimSpace(line)
	level := slog.LevelWarn
	if tag, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(tag, "[") {
		line = rest
		switch tag {
		case "[DEBUG":
			level = slog.LevelDebug
		case "[INFO":
			level = slog.LevelInfo
		case "[ERR", "[ERROR":
			// No failure of gossip can break a lock: none is an error.
			level = slog.LevelWarn
		}
	}
	return level, strings.TrimPrefix(line, "memberlist: ")
}

func isOrdinary(text string) bool {
	return slices.ContainsFunc(ordinary(), func(begin string) bool { return strings.HasPrefix(text, begin) })
}

func between(text, start, end string) (string, bool) {
	text, ok := strings.CutPrefix(text, start)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(text, end)
}
