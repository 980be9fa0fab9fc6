package fsm

import "log/slog"

// Act records an operator's order: at which process it was given, what, and why. It carries nothing out, and
// changes nothing but what is heard of the group: an EventAct has all of it, and comes again with a late
// duplicate. It is of LevelOfQuotas.
// CodeInvalid for a kind that is none, and for a name or reason out of bounds.
type Act struct {
	By     Process // where the order was given: the proposer, or the client of a Via
	Kind   ActKind
	Node   Node   // that it is about, if it is about one
	Name   string // of the lock or Once key (see OnceName), or the prefix of the quota
	Token  uint64
	Limit  uint32
	Reason string
}

// ActKind is what an operator orders.
type ActKind uint8

// What an operator can order.
const (
	ActForceRelease ActKind = iota + 1
	ActRequestRelease
	ActRevokeNode
	ActResizeLimit
	ActSetQuota
	ActRemoveNode
	ActTransferRaftLeader
	ActForgetOnce
	actEnd
)

// String is the call of the API that gives the order.
func (k ActKind) String() string {
	return named("act", uint8(k),
		"none", "ForceRelease", "RequestRelease", "RevokeNode", "ResizeLimit", "SetQuota", "RemoveNode", "TransferRaftLeader", "ForgetOnce",
	)
}

// LogValue has what the act names.
func (c Act) LogValue() slog.Value {
	said := []slog.Attr{slog.String("order", c.Kind.String()), slog.String("by", c.By.Node.String()), slog.String("reason", c.Reason)}
	if c.Node != (Node{}) {
		said = append(said, slog.String("node", c.Node.String()))
	}
	if key, once := OnceKey(c.Name); once {
		said = append(said, slog.String("key", key))
	} else if c.Name != "" {
		said = append(said, slog.String("name", c.Name))
	}
	if c.Token != 0 {
		said = append(said, slog.Uint64("token", c.Token))
	}
	if c.Limit != 0 {
		said = append(said, slog.Int("limit", int(c.Limit)))
	}
	return slog.GroupValue(said...)
}

func (c Act) about() (op, Process) { return opAct, c.By }

func (c *Act) fields(f *codec) {
	f.node(1, &c.By.Node)
	f.uint(2, &c.By.Incarnation)
	narrow(f, 3, &c.Kind)
	f.someNode(4, &c.Node)
	f.text(5, &c.Name)
	f.uint(6, &c.Token)
	narrow(f, 7, &c.Limit)
	f.text(8, &c.Reason)
}

func (c *Act) apply(m *Machine) Outcome {
	if c.Kind == 0 || c.Kind >= actEnd || c.Name != "" && !validLock(c.Name) || !validLabel(c.Reason) {
		return Outcome{Code: CodeInvalid}
	}
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventAct, Act: c.Kind, Session: SessionID{Node: c.Node}, Name: c.Name, Token: c.Token,
		Detail: c.Reason, By: c.By.Node, Terms: Terms{Limit: c.Limit},
	})
	return Outcome{}
}
