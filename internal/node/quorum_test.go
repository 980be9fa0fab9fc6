package node

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
)

// Seen with real processes on a busy machine: a node that had left, and said good-bye to the others
// for two seconds more, told its operator that the group had no raft leader, and missed all voters.
func TestWhoLeavesMissesNoRaftLeader(t *testing.T) {
	t.Parallel()
	told := &strings.Builder{}
	n := New(Config{Logger: slog.New(slog.NewTextHandler(told, nil)), Listener: &heard{}})
	if err := n.BeginLeave(); err != nil {
		t.Fatal(err)
	}
	q := quorum{n: n, lost: time.Now().Add(-time.Hour)}
	q.poll(t.Context(), &consensus.Group{}) // nobody is asked
	if told.Len() > 0 || !q.lost.IsZero() {
		t.Errorf("it said %q", told)
	}
}

// The line that a lost majority writes leads to the section on what to do then.
func TestTheSectionOnALostMajorityIsWhereTheLogSays(t *testing.T) {
	t.Parallel()
	page, section, _ := strings.Cut(goneForGood, "#")
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		heading, is := strings.CutPrefix(strings.TrimSpace(line), "### ")
		if is && strings.ReplaceAll(strings.ToLower(heading), " ", "-") == section {
			return
		}
	}
	t.Errorf("%s has no section %s", page, section)
}
