package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// slowDir holds up the engine that starts in it, and notes whether it was closed meanwhile.
type slowDir struct {
	datadir.Dir
	begun, goOn  chan struct{}
	inUse, early atomic.Bool
}

func (d *slowDir) FS() vfs.FS {
	if d.inUse.CompareAndSwap(false, true) {
		close(d.begun)
		<-d.goOn
		d.inUse.Store(false)
	}
	return d.Dir.FS()
}

func (d *slowDir) Close() error {
	d.early.Store(d.inUse.Load())
	return d.Dir.Close()
}

// Close gave the lock of the directory up while the engine was still starting in it, for seconds on a slow disk:
// another process could open it beside that.
func TestCloseKeepsTheDirectoryUntilTheEngineHasStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := &slowDir{Dir: datadir.Memory(), begun: make(chan struct{}), goOn: make(chan struct{})}
		n := opened(t, &heard{}, Config{Env: simenv.Env{Dir: dir}})
		<-dir.begun
		closed := make(chan struct{})
		go func() { n.Close(); close(closed) }()
		time.Sleep(10 * time.Second)
		close(dir.goOn)
		<-closed
		if dir.early.Load() {
			t.Error("the directory was closed while the engine was starting")
		}
	})
}

// A replica serves, and its group has not accepted this process yet: its calls wait, and its status said ready.
func TestANodeThatItsGroupHasNotAcceptedIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := opened(t, &heard{}, Config{})
		ready(t, n)
		group, _ := n.Proposer.Current()
		n.Proposer.Retire()
		n.Proposer.Start(group)
		if n.Status().Serves || !strings.Contains(n.Missing(), "accepted this process") {
			t.Errorf("it serves: %v, and waits for %q", n.Status().Serves, n.Missing())
		}
		n.Proposer.Greet()
		if !n.Status().Serves || n.Missing() != "" {
			t.Errorf("it serves: %v, and waits for %q", n.Status().Serves, n.Missing())
		}
	})
}
