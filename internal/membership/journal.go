package membership

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	journalBurst = 10              // lines in a row
	journalEvery = 2 * time.Second // and then one in this time
)

// Lines of memberlist that tell what none of its interfaces tells. A test
// keeps them in step with the memberlist of go.mod.
const (
	lineSuspect    = "Suspect "
	lineSuspectEnd = " has failed, no acks received"
	lineNoUDP      = "Was able to connect to "
	lineNoUDPEnd   = " over TCP but UDP probes failed, network may be misconfigured"
)

// journal turns memberlist's log lines into slog records. What is above debug
// level is limited in rate: strangers can make memberlist complain at will.
type journal struct {
	logger  *slog.Logger
	suspect func(name string) // a probe of the member had no answer

	mu      sync.Mutex
	tokens  float64
	last    time.Time
	dropped int
	noUDP   bool // has been reported
	silent  bool
}

func newJournal(logger *slog.Logger) *journal {
	return &journal{logger: logger, tokens: journalBurst, last: time.Now()}
}

// Write takes one line of memberlist; it is a log.Logger's output.
func (j *journal) Write(line []byte) (int, error) {
	level, text := splitLine(string(line))
	if name, ok := between(text, lineSuspect, lineSuspectEnd); ok {
		j.suspect(name)
	}
	if _, ok := between(text, lineNoUDP, lineNoUDPEnd); ok && !j.firstNoUDP() {
		level = slog.LevelDebug
	}
	j.record(level, text)
	return len(line), nil
}

// drop reports something of our own that strangers can cause.
func (j *journal) drop(text string, args ...any) { j.record(slog.LevelWarn, text, args...) }

func (j *journal) record(level slog.Level, text string, args ...any) {
	if !j.logger.Enabled(context.Background(), level) {
		return
	}
	dropped, ok := j.admit(level, time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "dropped", dropped)
	}
	j.logger.Log(context.Background(), level, "gossip: "+text, args...)
}

// admit takes a token, and answers how many lines found none before this one.
func (j *journal) admit(level slog.Level, now time.Time) (dropped int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.silent {
		return 0, false
	}
	if level < slog.LevelInfo {
		return 0, true
	}
	j.tokens = min(journalBurst, j.tokens+float64(now.Sub(j.last))/float64(journalEvery))
	j.last = now
	if j.tokens < 1 {
		j.dropped++
		return 0, false
	}
	j.tokens--
	dropped, j.dropped = j.dropped, 0
	return dropped, true
}

// firstNoUDP is true once: one warning is enough for a network without UDP.
func (j *journal) firstNoUDP() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.noUDP
	j.noUDP = true
	return first
}

// silence ends the journal: memberlist complains about its own shutdown.
func (j *journal) silence() {
	j.mu.Lock()
	j.silent = true
	j.mu.Unlock()
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

func between(text, start, end string) (string, bool) {
	text, ok := strings.CutPrefix(text, start)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(text, end)
}
