package membership

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/member"
)

// Bounds of a Meta's strings in bytes. A Meta with all strings at their bounds fits MetaMax.
const (
	NodeMax      = 36 // a UUID, as that of a group
	ClusterIDMax = 36
	NameMax      = 128
	ZoneMax      = member.ZoneMax
	VersionMax   = 32
	MetaMax      = 512
)

// Meta is a node's description of itself. It is a hint for finding peers: nothing in it can take or
// give a lock.
type Meta struct {
	Node        string // UUID, the same for all processes and replicas of the node
	Incarnation uint64 // of the process
	ClusterID   string // UUID of the group that it belongs to or would join; empty: none
	Name        string // for people
	Zone        string // failure domain: "zone" or "zone/host"
	Version     string // of the library
	Replica     uint64 // id of its replica in the group, or of the replica that it asks for
	Phase       autopilot.Phase
	Voter       bool
	Level       uint64 // highest feature level that it supports
	Applied     uint64 // applied index of its replica, at the last SetMeta
	Alone       bool   // it founded its group and is the only node that ever joined it
	Birth       uint64 // first token of that group
	GroupLevel  uint64 // feature level of its group, as its replica has applied it
	Able        bool   // it can be a client
	Client      bool   // it is one: it asks for a replica, and does without meanwhile
	Unfit       bool   // it is one, and its disk bears no replica now
	Settings    Settings
}

// Settings are the parts of a node's configuration that are to be the same on all nodes. The zero
// value is of a version that does not tell them.
type Settings struct {
	Voters, Replicas                  int
	Tick, Heartbeat, Election, MaxTTL time.Duration
}

var errMeta = errors.New("holdfast: gossip meta is malformed")

// Field numbers of an encoded Meta. A number never changes its meaning; unknown ones are skipped,
// so that versions can coexist.
const (
	fieldNode protowire.Number = iota + 1
	fieldIncarnation
	fieldClusterID
	fieldName
	fieldZone
	fieldVersion
	fieldReplica
	fieldPhase
	fieldVoter
	fieldLevel
	fieldApplied
	fieldAlone
	fieldBirth
	fieldVoters
	fieldTick
	fieldHeartbeat
	fieldElection
	fieldMaxTTL
	fieldGroupLevel
	fieldAble
	fieldClient
	fieldReplicas
	fieldUnfit
)

// texts lists the string fields with their bounds.
func (m *Meta) texts() []metaText {
	return []metaText{
		{fieldNode, "Node", &m.Node, NodeMax},
		{fieldClusterID, "ClusterID", &m.ClusterID, ClusterIDMax},
		{fieldName, "Name", &m.Name, NameMax},
		{fieldZone, "Zone", &m.Zone, ZoneMax},
		{fieldVersion, "Version", &m.Version, VersionMax},
	}
}

type metaText struct {
	field protowire.Number
	name  string
	value *string
	limit int
}

// validate names the first field that other nodes would refuse.
func (m Meta) validate() error {
	for _, t := range m.texts() {
		if len(*t.value) > t.limit {
			return fmt.Errorf("holdfast: gossip meta: %s is longer than %d bytes", t.name, t.limit)
		}
		if !member.Printable(*t.value) {
			return fmt.Errorf("holdfast: gossip meta: %s has unprintable bytes", t.name)
		}
	}
	if m.Node == "" || strings.ContainsAny(m.Node, "~/") {
		return fmt.Errorf("holdfast: gossip meta: Node %q is not a node id", m.Node)
	}
	return nil
}

// encode returns the wire form, which fits MetaMax if m is valid.
func (m Meta) encode() []byte {
	var b []byte
	for _, t := range m.texts() {
		if *t.value != "" {
			b = protowire.AppendTag(b, t.field, protowire.BytesType)
			b = protowire.AppendString(b, *t.value)
		}
	}
	number := func(field protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, v)
		}
	}
	number(fieldIncarnation, m.Incarnation)
	number(fieldReplica, m.Replica)
	number(fieldPhase, uint64(m.Phase))
	number(fieldVoter, protowire.EncodeBool(m.Voter))
	number(fieldLevel, m.Level)
	number(fieldApplied, m.Applied)
	number(fieldAlone, protowire.EncodeBool(m.Alone))
	number(fieldBirth, m.Birth)
	number(fieldVoters, uint64(m.Settings.Voters))
	number(fieldTick, uint64(m.Settings.Tick))
	number(fieldHeartbeat, uint64(m.Settings.Heartbeat))
	number(fieldElection, uint64(m.Settings.Election))
	number(fieldMaxTTL, uint64(m.Settings.MaxTTL))
	number(fieldGroupLevel, m.GroupLevel)
	number(fieldAble, protowire.EncodeBool(m.Able))
	number(fieldClient, protowire.EncodeBool(m.Client))
	number(fieldReplicas, uint64(m.Settings.Replicas))
	number(fieldUnfit, protowire.EncodeBool(m.Unfit))
	return b
}

// decodeMeta reads the wire form and refuses every invalid Meta.
func decodeMeta(b []byte) (Meta, error) {
	var m Meta
	if len(b) > MetaMax {
		return m, errMeta
	}
	if !member.Fields(b, m.setText, m.setNumber) {
		return Meta{}, errMeta
	}
	if err := m.validate(); err != nil {
		return Meta{}, err
	}
	return m, nil
}

func (m *Meta) setText(field protowire.Number, v []byte) {
	for _, t := range m.texts() {
		if t.field == field {
			*t.value = string(v)
		}
	}
}

func (m *Meta) setNumber(field protowire.Number, v uint64) {
	switch field {
	case fieldIncarnation:
		m.Incarnation = v
	case fieldReplica:
		m.Replica = v
	case fieldPhase:
		m.Phase = autopilot.Phase(min(v, 255)) // a later version may know more phases
	case fieldVoter:
		m.Voter = protowire.DecodeBool(v)
	case fieldLevel:
		m.Level = v
	case fieldApplied:
		m.Applied = v
	case fieldAlone:
		m.Alone = protowire.DecodeBool(v)
	case fieldBirth:
		m.Birth = v
	case fieldVoters:
		m.Settings.Voters = int(v)
	case fieldTick:
		m.Settings.Tick = time.Duration(v)
	case fieldHeartbeat:
		m.Settings.Heartbeat = time.Duration(v)
	case fieldElection:
		m.Settings.Election = time.Duration(v)
	case fieldMaxTTL:
		m.Settings.MaxTTL = time.Duration(v)
	case fieldGroupLevel:
		m.GroupLevel = v
	case fieldAble:
		m.Able = protowire.DecodeBool(v)
	case fieldClient:
		m.Client = protowire.DecodeBool(v)
	case fieldReplicas:
		m.Settings.Replicas = int(v)
	case fieldUnfit:
		m.Unfit = protowire.DecodeBool(v)
	}
}

// listName is the name of this incarnation in memberlist. Each incarnation has its own: memberlist
// refuses a known name at another address until the former member has been dead for a while.
func (m Meta) listName() string {
	return m.Node + "~" + strconv.FormatUint(m.Incarnation, 10)
}

// splitName splits a listName.
func splitName(name string) (node string, incarnation uint64, ok bool) {
	node, digits, ok := strings.Cut(name, "~")
	if !ok {
		return "", 0, false
	}
	incarnation, err := strconv.ParseUint(digits, 10, 64)
	return node, incarnation, err == nil
}
