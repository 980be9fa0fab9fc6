package store

import (
	"path/filepath"
	"testing"
)

func TestTheFileOfASnapshotIsWhereTheDirectoryIsNow(t *testing.T) {
	t.Parallel()
	const below = "/145/snapshot-part-1/snapshot-1-7/snapshot-2A/snapshot-2A.gbsnap"
	for _, was := range []string{"/was/raft/some-host", "/is/raft/other-host", "/is/raft/replica", ""} {
		if got := filepath.ToSlash(present("/is/raft", was+below)); got != "/is/raft/replica"+below {
			t.Errorf("recorded below %q: %s", was, got)
		}
	}
}
