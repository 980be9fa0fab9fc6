package membership

import (
	"bytes"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/testlog"
)

// newTestLogFilter writes lines like memberlist does.
func newTestLogFilter(level slog.Level) (*logFilter, *log.Logger, *testlog.Lines) {
	book := &testlog.Lines{}
	j := newLogFilter(book.Logger(level))
	j.suspect = func(string) {}
	return j, log.New(j, "", 0), book
}

func TestLinesOfMemberlistKeepTheirLevelAndLoseTheirPrefix(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"[DEBUG] memberlist: x":          `level=DEBUG msg="gossip: x"`,
		"[INFO] memberlist: x":           `level=INFO msg="gossip: x"`,
		"[WARN] memberlist: x":           `level=WARN msg="gossip: x"`,
		"[ERR] memberlist: x":            `level=WARN msg="gossip: x"`,
		"[ERROR] memberlist: x [y] z":    `level=WARN msg="gossip: x [y] z"`,
		"[ERR] Failed to shutdown: nope": `level=WARN msg="gossip: Failed to shutdown: nope"`,
		"no level at all":                `level=WARN msg="gossip: no level at all"`,
	} {
		_, lines, book := newTestLogFilter(slog.LevelDebug)
		lines.Print(line)
		if book.Count(want) != 1 {
			t.Errorf("%q became %q", line, book)
		}
	}
}

func TestComplaintsAreLimitedInRateAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, lines, book := newTestLogFilter(slog.LevelInfo)
		for range 1000 {
			lines.Print("[ERR] memberlist: x")
		}
		if n := book.Count(); n != logBurst {
			t.Errorf("%d lines, want %d", n, logBurst)
		}
		time.Sleep(logPeriod)
		lines.Print("[ERR] memberlist: x")
		if book.Count("dropped=990") != 1 {
			t.Error("the next line does not say how many were dropped")
		}
	})
}

func TestSilencedJournalSaysNothing(t *testing.T) {
	t.Parallel()
	j, lines, book := newTestLogFilter(slog.LevelDebug)
	j.silence()
	lines.Print("[ERR] memberlist: Failed to shutdown transport")
	if book.Count() != 0 {
		t.Error("something was logged")
	}
}

// The two lines that we act on must be in the memberlist that we build with.
func TestMemberlistStillWritesTheLinesWeActOn(t *testing.T) {
	t.Parallel()
	source := memberlistSource(t, "state.go")
	for _, text := range []string{
		"memberlist: " + lineSuspect + "%s" + lineSuspectEnd,
		"memberlist: " + lineNoUDP + "%s" + lineNoUDPEnd,
	} {
		if !bytes.Contains(source, []byte(text)) {
			t.Errorf("memberlist no longer writes %q", text)
		}
	}
}

func TestMemberlistStillWritesTheLinesThatAreOrdinary(t *testing.T) {
	t.Parallel()
	source := append(memberlistSource(t, "state.go"), memberlistSource(t, "net.go")...)
	for _, begin := range ordinary() {
		if !bytes.Contains(source, []byte("] memberlist: "+strings.Replace(begin, `""`, "%q", 1))) {
			t.Errorf("memberlist no longer writes %q", begin)
		}
	}
}

func memberlistSource(t *testing.T, file string) []byte {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Skip("no build information")
	}
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skip(err)
		}
		cache = filepath.Join(home, "go", "pkg", "mod")
	}
	for _, dep := range info.Deps {
		if strings.HasSuffix(dep.Path, "hashicorp/memberlist") {
			source, err := os.ReadFile(filepath.Join(cache, dep.Path+"@"+dep.Version, file))
			if err != nil {
				t.Skip(err)
			}
			return source
		}
	}
	t.Skip("memberlist is not in the build information")
	return nil
}
