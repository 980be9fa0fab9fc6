package consensus

import (
	"context"
	"crypto/md5"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestProposalCostsEveryReplicaOneSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		disks := []*faulty{{kind: vfs.OpSync}, {kind: vfs.OpSync}, {kind: vfs.OpSync}}
		first := b.open(t, 1, vfs.Wrap(vfs.NewMem(), disks[0]), StartBootstrap)
		first.propose(t, birth())
		group := []*replica{first}
		for n := 2; n <= 3; n++ {
			joined := b.add(t, first, n, vfs.Wrap(vfs.NewMem(), disks[n-1]))
			first.promote(t, joined)
			group = append(group, joined)
		}
		defer func() { closeAll(t, group) }()
		for _, r := range group {
			r.barrier(t)
		}
		var before [3]int64
		for i := range disks {
			before[i] = disks[i].done.Load()
		}
		const proposals = 200
		for level := range proposals {
			group[level%3].propose(t, fsm.Level{Level: uint64(level + 1)})
		}
		for i := range disks {
			if n := disks[i].done.Load() - before[i]; n < proposals/2 || n > proposals+5 {
				t.Errorf("replica %d synced %d times for %d proposals", i+1, n, proposals)
			}
		}
	})
}

// TestNothingAcknowledgedIsForgottenInAPowerCut cuts the power of all replicas at once, again and
// again.
func TestNothingAcknowledgedIsForgottenInAPowerCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		b := newBench()
		b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 30, 5 }
		disks := []*vfs.MemFS{vfs.NewStrictMem(), vfs.NewStrictMem(), vfs.NewStrictMem()}
		for _, d := range disks {
			prepareStrict(t, d)
		}
		first := b.open(t, 1, disks[0], StartBootstrap)
		first.propose(t, birth())
		group := []*replica{first}
		for n := 2; n <= 3; n++ {
			joined := b.add(t, first, n, disks[n-1])
			first.promote(t, joined)
			group = append(group, joined)
		}
		acknowledged := uint64(0)
		for range 12 {
			for range 5 + random.IntN(40) {
				group[random.IntN(3)].propose(t, fsm.Level{Level: acknowledged + 1})
				acknowledged++
			}
			for _, d := range disks {
				d.SetIgnoreSyncs(true)
			}
			_, _ = group[random.IntN(3)].Propose(context.Background(), fsm.Encode(fsm.Level{Level: acknowledged}))
			closeAll(t, group)
			for i, d := range disks {
				d.ResetToSyncedState()
				d.SetIgnoreSyncs(false)
				group[i] = b.open(t, i+1, d, StartRestart)
			}
			for _, r := range group {
				r.barrier(t)
				if got := r.level(); got != acknowledged {
					t.Errorf("level %d after the power cut, %d was acknowledged", got, acknowledged)
				}
			}
		}
		closeAll(t, group)
	})
}

// prepareStrict makes the directory above the replica's durable, which is the data directory's
// business.
func prepareStrict(t *testing.T, fs vfs.FS) {
	t.Helper()
	if err := fs.MkdirAll("/data/raft", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/", "/data"} {
		dir, err := fs.OpenDir(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.Sync(); err != nil {
			t.Fatal(err)
		}
		dir.Close()
	}
}

func TestReplicaOnADiskComesBackUnderAnotherHostName(t *testing.T) {
	t.Parallel()
	b, dir := newBench(), t.TempDir()
	open := func(how Start) *replica {
		r, err := b.tryIn(1, vfs.Default, dir, how)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open(StartBootstrap)
	r.propose(t, birth())
	r.close(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, host)); !os.IsNotExist(err) {
		t.Errorf("the directory has one named after the machine: %v", err)
	}
	stampHost(t, dir, "another-machine")
	r = open(StartRestart)
	r.barrier(t)
	r.Read(func(m *fsm.Machine) {
		if !m.Info().Born {
			t.Error("state lost")
		}
	})
	r.close(t)
}

func stampHost(t *testing.T, dir, host string) {
	t.Helper()
	name := filepath.Join(dir, "dragonboat.ds")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var stamp raftpb.RaftDataStatus
	if err := stamp.Unmarshal(content[8:]); err != nil {
		t.Fatal(err)
	}
	stamp.Hostname = host
	if content, err = stamp.Marshal(); err != nil {
		t.Fatal(err)
	}
	sum := md5.Sum(content) // of which the engine takes the second half
	if err := os.WriteFile(name, append(sum[8:], content...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStampCutOffByACrashIsWrittenAnew(t *testing.T) {
	t.Parallel()
	b, dir := newBench(), t.TempDir()
	for _, name := range []string{"dragonboat.ds", "NODEHOST.ID"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.tryIn(1, vfs.Default, dir, StartBootstrap)
	if err != nil {
		t.Fatal(err)
	}
	r.propose(t, birth())
	r.close(t)
}

func TestImportLeavesTheStandardLoggerAlone(t *testing.T) {
	t.Parallel()
	if log.Flags() != log.LstdFlags || log.Prefix() != "" || log.Writer() != io.Writer(os.Stderr) {
		t.Errorf("standard logger has flags %d, prefix %q, writer %T", log.Flags(), log.Prefix(), log.Writer())
	}
}
