package membership

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	logBurst = 10              // lines in a row
	logEvery = 2 * time.Second // and then one in this time
)

// Lines of memberlist that tell what none of its interfaces tells. A test
// keeps them in step with the memberlist of go.mod.
const (
	lineSuspect    = "Suspect "
	lineSuspectEnd = " has failed, no acks received"
	lineNoUDP      = "Was able to connect to "
	lineNoUDPEnd   = " over TCP but UDP probes failed, network may be misconfigured"
)

// ordinary are the beginnings of complaints that every restart of a member brings, and every pause
// of one: that it does not answer, that its successor answers for itself at the same address, that
// it was taken for dead, that a stream ended before it said anything. That a member is suspect or
// failed memberlist says besides, at info level; of a stream that says what is wrong the carrier
// tells. A test keeps these in step, too.
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

// logFilter turns memberlist's log lines into slog records. What is above debug
// level is limited in rate: strangers can make memberlist complain at will.
type logFilter struct {
	logger  *slog.Logger
	suspect func(name string)              // a probe of the member had no answer
	noUDP   func(name string) (again bool) // … but over TCP; once may be chance

	mu       sync.Mutex
	lines    allowance
	refusals allowance // of their own, so that strangers do not drown the rest
	saidUDP  bool      // that it is missing
	silent   bool
}

func newLogFilter(logger *slog.Logger) *logFilter {
	full := allowance{tokens: logBurst, last: time.Now()}
	return &logFilter{logger: logger, lines: full, refusals: full, suspect: func(string) {}, noUDP: func(string) bool { return false }}
}

// Write takes one line of memberlist; it is a log.Logger's output.
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
	if strings.Contains(text, errRefused.Error()) || isOrdinary(text) { // the carrier has told of what it refused
		level = slog.LevelDebug
	}
	f.record(&f.lines, level, text)
	return len(line), nil
}

// drop reports something of our own that strangers can cause.
func (f *logFilter) drop(text string, args ...any) {
	f.record(&f.refusals, slog.LevelWarn, text, args...)
}

func (f *logFilter) record(a *allowance, level slog.Level, text string, args ...any) {
	if !f.logger.Enabled(context.Background(), level) {
		return
	}
	dropped, ok := f.admit(a, level, time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "dropped", dropped)
	}
	f.logger.Log(context.Background(), level, "gossip: "+text, args...)
}

// admit reports whether a line may be written, and how many may not since the last.
func (f *logFilter) admit(a *allowance, level slog.Level, now time.Time) (dropped int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return 0, false
	}
	if level < slog.LevelInfo {
		return 0, true
	}
	return a.take(now)
}

// allowance is what may be logged: logBurst lines, and one more in each logEvery.
type allowance struct {
	tokens  float64
	last    time.Time
	dropped int
}

func (a *allowance) take(now time.Time) (dropped int, ok bool) {
	a.tokens = min(logBurst, a.tokens+float64(now.Sub(a.last))/float64(logEvery))
	a.last = now
	if a.tokens < 1 {
		a.dropped++
		return 0, false
	}
	a.tokens--
	dropped, a.dropped = a.dropped, 0
	return dropped, true
}

// reportNoUDP warns once, whatever else is logged: one warning is enough for a
// network without UDP.
func (f *logFilter) reportNoUDP(text string) {
	f.mu.Lock()
	first := !f.saidUDP && !f.silent
	f.saidUDP = f.saidUDP || first
	f.mu.Unlock()
	if first {
		f.logger.Warn("gossip: " + text)
	}
}

// silence ends the logging: memberlist complains about its own shutdown.
func (f *logFilter) silence() {
	f.mu.Lock()
	f.silent = true
	f.mu.Unlock()
}

// splitLine takes "[WARN] memberlist: text" apart.
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
			// Nothing that happens to gossip can break a lock: no error of ours.
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
