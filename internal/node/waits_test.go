package node

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// again opens a node's directory once more, as its next process does.
func again(t *testing.T, fsys vfs.FS) datadir.Dir {
	t.Helper()
	dir, err := datadir.OpenFS(fsys, "/data", "test", fsm.Place{})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantLine wants a line each ten seconds of the minute that a node has waited, with what it waits for.
func (l *lines) wantLine(t *testing.T, line, waits string) {
	t.Helper()
	told := l.String()
	if n := strings.Count(told, line); n < 5 || n > 6 || !strings.Contains(told, waits) {
		t.Errorf("%d lines %q with %q in %s", n, line, waits, told)
	}
}

// hanging are addresses at which a process hangs.
func hanging(t *testing.T, network *transport.Memory, count int) (addrs []string) {
	t.Helper()
	security, _, err := transport.Security("test", []string{"a secret of the fleet that nobody guesses"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		endpoint, err := network.Listen(t.Context(), fmt.Sprintf("10.0.1.%d:7643", i+1), transport.Options{TLS: security, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		endpoint.Handle(transport.KindGossip, func(net.Conn) {})
		t.Cleanup(func() { endpoint.Close() })
		addrs = append(addrs, endpoint.Addr())
	}
	return addrs
}

// A client on a directory is started again while its fleet is down. It waited without a line in the log.
func TestAClientThatWaitsForItsFleetSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		nodes, client := beyond(t, again(t, fsys))
		for _, n := range append([]*Node{client}, nodes...) {
			n.Close()
		}
		lines, cfg := &lines{}, client.cfg
		cfg.Logger, cfg.Env.Dir = lines.logger(), again(t, fsys)
		n := opened(t, &heard{}, cfg)
		time.Sleep(time.Minute + time.Second)
		lines.wantLine(t, "this node has no replica in its group yet", "the node waits for its group to add a replica, or to let it be a client")
		n.Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// The founder of a group that nobody has joined is started again, and tries addresses that hang before it
// serves. It said nothing, and the status that its group has not accepted it.
func TestAFounderThatTriesItsJoinBeforeItServesSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, fsys, lines := transport.NewMemory(1), vfs.NewMem(), &lines{}
		n := opened(t, &heard{}, Config{Env: simenv.Env{Network: network, Dir: again(t, fsys)}})
		ready(t, n)
		n.Close()
		join := hanging(t, network, 28) // gossip tries four at once, for ten seconds each
		opened(t, &heard{}, Config{Join: join, Logger: lines.logger(), Env: simenv.Env{Network: network, Dir: again(t, fsys)}})
		time.Sleep(time.Minute + time.Second)
		lines.wantLine(t, "this node does not serve its group yet", "the node tries the addresses of Join")
	})
}
