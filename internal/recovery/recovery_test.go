package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

// One group is recovered from an older copy, and a moment later from a newer one. With whole seconds,
// the second recovery began up to a second below the tokens of the first one.
func TestALaterRecoveryBeginsAboveAnEarlierOne(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_790_000_000, 900e6) // the raft leader of the former group raised its tokens to the clock
	counter := func(written, now time.Time) uint64 {
		s := source{state: fsm.New(), Report: Report{Written: written, Dir: new(datadir.Offline)}}
		birth := fsm.Birth{Cluster: [16]byte{1}, Counter: fsm.TokensIn(begun.Sub(time.Unix(0, 0))), Bootstrap: 1, Voters: 1}
		if o, _ := s.state.Apply(1, fsm.ProcessOf(birth), fsm.Encode(birth)); o.Code != fsm.CodeOK {
			t.Fatal(o.Code)
		}
		if err := s.recover(Config{Now: func() time.Time { return now }}); err != nil {
			t.Fatal(err)
		}
		return s.Counter
	}
	const between = 10 * time.Millisecond
	for at := begun.Add(9 * time.Second); at.Before(begun.Add(11 * time.Second)); at = at.Add(70 * time.Millisecond) {
		older, newer := counter(begun, at), counter(begun.Add(8*time.Second), at.Add(between))
		if newer < older+fsm.TokensIn(between)-1 {
			t.Errorf("%v after %v, tokens above %d after those above %d", between, at, newer, older)
		}
	}
}

// A backup is put once more into a directory that an earlier restore left. It goes into none that a node has
// opened since, or that holds what a recovery has made of a node's own data: those may be newer.
func TestABackupReplacesNothingButARestoreThatNobodyHasOpened(t *testing.T) {
	t.Parallel()
	from, fsys := copied(t), disk(t, nil)
	var reports [3]Report
	for i := range reports {
		var err error
		if reports[i], err = recovered(fsys, from); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := check(fsys, reports[2]); err != nil { // it opens the directory
		t.Error(err)
	}
	refused := func(text string) {
		t.Helper()
		if _, err := recovered(fsys, from); !errors.Is(err, datadir.ErrIncompatible) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
	refused("is of a node of group " + reports[2].Group)
	if _, err := recovered(fsys, nil); err != nil {
		t.Fatal(err)
	}
	refused("open a node on it")
}

// A directory of a later version was opened, and what that had added was called damage. It is refused by the
// level in its identity, before anything of the engine is read.
func TestADirectoryOfALaterLevelIsRefusedUnread(t *testing.T) {
	t.Parallel()
	fsys := disk(t, nil)
	if _, err := recovered(fsys, copied(t)); err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.OpenFS(fsys, path, "fleet", fsm.Place{})
	if err != nil {
		t.Fatal(err)
	}
	id := dir.Identity()
	id.Level = fsm.LevelKnown + 1
	if err := errors.Join(dir.Save(id), dir.Close(), fsys.RemoveAll(dir.RaftDir()), fsys.MkdirAll(dir.RaftDir(), 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err = recovered(fsys, nil)
	if want := fmt.Sprintf("the group was at level %d when a later version ran on %s", id.Level, path); !errors.Is(err, datadir.ErrIncompatible) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// One directory of a group is recovered, and a further one is found thereafter. A run with both goes on with
// neither in silence. A second run with the first one alone said of the recovered group that it is the former.
func TestADirectoryThatWasRecoveredAlreadyIsNamedBesideAFurtherOne(t *testing.T) {
	t.Parallel()
	former := disk(t, nil)
	if _, err := recovered(former, copied(t)); err != nil {
		t.Fatal(err)
	}
	fsys := beside(t, former)
	first, err := recovered(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := recovered(fsys, nil)
	if err != nil || again.Former.ClusterID != first.Former.ClusterID || again.Group == first.Group {
		t.Errorf("run again, %+v, after %+v: %v", again, first, err)
	}
	dirs := make([]*datadir.Offline, 2)
	for i, name := range []string{other, path} { // of two that have come as far the first one is taken
		if dirs[i], err = datadir.OfflineFS(fsys, name); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Run(t.Context(), Config{Dirs: dirs, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, datadir.ErrIncompatible) || !strings.Contains(err.Error(), path+" was recovered already, as group "+again.Group) {
		t.Errorf("%v", err)
	}
	if err := check(fsys, again); err != nil {
		t.Error(err)
	}
}
