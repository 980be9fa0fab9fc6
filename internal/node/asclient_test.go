package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// fleetOf is nodes of a group with four replicas: what is beyond them is a client.
func fleetOf(t *testing.T, network *transport.Memory, count int) (nodes []*Node) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	for i := range count {
		cfg := Config{Bind: fmt.Sprintf("10.0.0.%d:7643", i+1), Name: fmt.Sprint("node-", i), Replicas: 4, Logger: log, Env: simenv.Env{Network: network}}
		if i > 0 {
			cfg.Join = []string{"10.0.0.1:7643"}
		}
		nodes = append(nodes, opened(t, &heard{}, cfg))
		ready(t, nodes...)
	}
	return nodes
}

// A client is given a replica, which the group removes before it has caught up: a standby that was
// silent is heard again. The node went on to hang on the other replica without having greeted it, and
// no call of it ended any more.
func TestAClientWhoseNewReplicaIsRemovedIsAClientAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fleetOf(t, transport.NewMemory(1), 5)
		client := nodes[4]
		if !client.asClient.serves() {
			t.Fatal("the fifth node is no client")
		}
		client.founder.replicaRemoved(client.founder.replica(), false)
		time.Sleep(10 * time.Second)
		ctx := ready(t, client)
		if err := client.Joined(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The order waits for a replica, and one serves the node meanwhile: it answered that there is no group.
func TestAnOrderOfAClientWaitsUntilAReplicaServesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		nodes := fleetOf(t, network, 5)
		client := nodes[4]
		network.Isolate(client.Addr())
		time.Sleep(5 * time.Second)
		if client.asClient.serves() {
			t.Fatal("a replica still serves the client")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 2)
		go func() { ended <- client.RemoveNode(ctx, fsm.Node{1}, "a test") }()
		go func() { ended <- client.Backup(ctx, io.Discard) }()
		time.Sleep(time.Second)
		network.Heal()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, seam.ErrUnknownNode) {
				t.Error(err)
			}
		}
	})
}

// beyond is a fleet of four replicas and a client, on a directory of its own.
func beyond(t *testing.T, dir datadir.Dir) (nodes []*Node, client *Node) {
	t.Helper()
	network := transport.NewMemory(1)
	nodes = fleetOf(t, network, 4)
	cfg := Config{Bind: "10.0.0.5:7643", Name: "client", Replicas: 4, Join: []string{"10.0.0.1:7643"}, Env: simenv.Env{Network: network, Dir: dir}}
	client = opened(t, &heard{}, cfg)
	ready(t, client)
	if !client.asClient.serves() {
		t.Fatal("the fifth node is no client")
	}
	return nodes, client
}

// promoted has another node leave, and waits until the client has its place.
func promoted(t *testing.T, ctx context.Context, other, client *Node) {
	t.Helper()
	if err := other.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	for {
		group, changed := client.Proposer.Current()
		if group != nil {
			break
		}
		<-changed
	}
	ready(t, client)
}

// A client leaves, and is given a replica between the look at who serves it and its good-bye. It went on to say
// good-bye by the other node's replica, which served it no more, for as long as Leave may take.
func TestAClientThatBecomesAReplicaWhileItLeavesSaysSoByThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, client := beyond(t, datadir.Memory())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		promoted(t, ctx, nodes[3], client)
		if err := client.BeginLeave(); err != nil {
			t.Fatal(err)
		}
		if !client.asClient.giveBack(ctx) {
			t.Error("nobody heard its good-bye")
		}
		if err := client.depart(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A call of a client is under way by another node's replica when the client comes to one of its own. It waited
// for the other one, which serves the node no more, until its context ended.
func TestACallOfAClientThatBecomesAReplicaGoesOnThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, client := beyond(t, datadir.Memory())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan bool)
		go func() {
			done, _ := client.byAnother(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			ended <- done
		}()
		promoted(t, ctx, nodes[3], client)
		if done := <-ended; done || ctx.Err() != nil {
			t.Errorf("the call is over: %v, %v", done, ctx.Err())
		}
		if err := client.RemoveNode(ctx, fsm.Node{1}, "a test"); !errors.Is(err, seam.ErrUnknownNode) {
			t.Error(err)
		}
	})
}

// watchedDir calls retired before the directory is; or it cannot be, as full says.
type watchedDir struct {
	datadir.Dir
	retired func()
	full    error
}

func (d *watchedDir) Save(id datadir.Identity) error {
	if !id.Retired {
		return d.Dir.Save(id)
	}
	if d.full != nil {
		return d.full
	}
	d.retired()
	return d.Dir.Save(id)
}

// The good-bye of a client is for good. A process that was killed after it, and before its directory was
// retired, could never start again: its group took the directory for a copy.
func TestAClientThatLeavesRetiresItsDirectoryBeforeItsGoodBye(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := &watchedDir{Dir: datadir.Memory()}
		nodes, client := beyond(t, dir)
		group := nodes[0].replica.Load()
		heard := make(chan fsm.Departure, 4)
		dir.retired = func() { heard <- departure(group, client.ID()) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if len(heard) == 0 || <-heard != fsm.Stays {
			t.Error("the group had heard the good-bye before")
		}
		if departure(group, client.ID()) != fsm.Gone {
			t.Error("the group has not heard the good-bye")
		}
	})
}

// The disk was full when a client left: its directory was not retired, and its good-bye was for good all the same.
// Its next process was taken for that of a copied directory, and failed for good.
func TestAClientWhoseDirectoryCannotBeRetiredMayComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := &watchedDir{Dir: datadir.Memory()}
		nodes, client := beyond(t, dir)
		group := nodes[0].replica.Load()
		full := errors.New("no space left on device")
		dir.full = full
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.Leave(ctx); !errors.Is(err, full) {
			t.Errorf("Leave: %v", err)
		}
		if departure(group, client.ID()) != fsm.Stays {
			t.Error("the group heard a good-bye for good")
		}
	})
}
