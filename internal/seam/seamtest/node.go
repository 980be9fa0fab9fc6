package seamtest

import (
	"bytes"
	"context"
	"io"
	"log/slog"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/backup"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Node implements seam.Node for the one process of a Group: it has no directory, port or gossip,
// and nothing of it fails.
type Node struct {
	*seam.Life
	group    *Group
	name     string
	log      *slog.Logger
	listener seam.Listener
	self     fsm.SessionID
}

// NewNode returns a node of this name, for simenv.Env.Node.
func NewNode(g *Group, name string, log *slog.Logger) func(seam.Listener) seam.Node {
	return func(l seam.Listener) seam.Node {
		g.expired = l.Expired
		self := fsm.SessionID{Node: fsm.Node{15: 1}, Incarnation: 1}
		return &Node{Life: seam.NewLife(), group: g, name: name, log: log, listener: l, self: self}
	}
}

// Group implements seam.Node.
func (n *Node) Group() seam.Group { return n.group }

// Open implements seam.Node.
func (n *Node) Open(ctx context.Context) error {
	n.listener.Identified(n.self, n.log)
	n.listener.LeaderChanged(n.self.Node.String())
	n.Go(n.group.timekeeper.Run)
	return n.Hello(ctx)
}

// Hello implements seam.Node.
func (n *Node) Hello(context.Context) error {
	n.group.apply(fsm.Encode(fsm.Hello{Node: n.self.Node, Incarnation: n.self.Incarnation, Name: n.name}))
	return nil
}

// Joined implements seam.Node.
func (n *Node) Joined(context.Context) error { return n.Stopped() }

// Ready implements seam.Node.
func (n *Node) Ready(ctx context.Context) error {
	if err := n.Stopped(); err != nil {
		return err
	}
	return n.group.Enter(ctx, seam.Urgent)
}

// Close implements seam.Node.
func (n *Node) Close() {
	n.End(n.listener, func(int) {
		n.group.apply(fsm.Encode(fsm.Goodbye{Node: n.self.Node, Incarnation: n.self.Incarnation}))
	}, func() {})
}

// Leave implements seam.Node.
func (n *Node) Leave(context.Context) error { return n.Life.Leave(n.Close) }

// RemoveNode implements seam.Node: it knows of no node but itself, the last voter.
func (n *Node) RemoveNode(_ context.Context, target fsm.Node, _ string) error {
	if target == n.self.Node {
		return &seam.KeptError{Node: target.String(), Reason: fsm.ReasonLast}
	}
	return seam.ErrUnknownNode
}

// TransferRaftLeader implements seam.Node: it is raft leader, and the only voter.
func (n *Node) TransferRaftLeader(_ context.Context, target fsm.Node, _ string) error {
	if target == n.self.Node {
		return nil
	}
	return seam.ErrNotVoter
}

// Status implements seam.Node.
func (n *Node) Status() seam.Status {
	id := n.self.Node.String()
	fleet := seam.Fleet{Members: []seam.Member{{Node: id, Name: n.name, Local: true}}, Voters: []seam.Replica{{Node: id}}, RaftLeader: id}
	st := seam.Status{Fleet: fleet, Serves: n.Stopped() == nil}
	n.group.read(func(m *fsm.Machine) { st.Applied = m.Applied() })
	return st
}

// Backup implements seam.Node.
func (n *Node) Backup(ctx context.Context, w io.Writer) error {
	var b bytes.Buffer
	var err error
	n.group.read(func(m *fsm.Machine) { err = m.WriteSnapshot(&b, nil) })
	if err != nil {
		return err
	}
	state, err := fsm.ReadSnapshot(&b) // a copy
	if err != nil {
		return err
	}
	return backup.Write(w, backup.Header{}, state, ctx.Done())
}

// Missing implements seam.Node.
func (n *Node) Missing() string { return "" }
