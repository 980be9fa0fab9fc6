package fsm

import (
	"cmp"
	"strings"
)

// value is what a lock keeps for its users.
type value struct {
	text string
	by   Node // that wrote it; zero of a lock's value that was written before LevelOfQuotas
}

// newValue is what a node writes; nil is no value.
func newValue(bytes []byte, by Node) *value {
	if bytes == nil {
		return nil
	}
	return &value{string(bytes), by}
}

// size is how much of the bound on values it takes; that of no value is 0.
func (v *value) size() int64 {
	if v == nil {
		return 0
	}
	return int64(len(v.text))
}

// BlockBytes is the unit in which quotas count the bytes of values: each value takes whole blocks. Part of
// the replicated machine.
const BlockBytes = 1 << 10

// block is one of the blocks of a value. So the blocks of all names with a prefix are counted by looking for
// the first and the last, as names are.
type block struct {
	name    string
	opened  uint64 // session and number of the request that waits with the value; 0: the value of the lock
	request uint64
	at      int // from 0
}

func lessBlock(a, b block) bool {
	return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.opened, b.opened),
		cmp.Compare(a.request, b.request), cmp.Compare(a.at, b.at)) < 0
}

// blocksOf is how many blocks so many bytes take.
func blocksOf(bytes int64) int { return int((bytes + BlockBytes - 1) / BlockBytes) }

// replaces counts the value of a lock, or of a claim on its lock, in the place of another (I7). b is its
// first block.
func (m *Machine) replaces(b block, old, v *value) {
	if old == v {
		return
	}
	m.values += v.size() - old.size()
	was, is := blocksOf(old.size()), blocksOf(v.size())
	for b.at = is; b.at < was; b.at++ {
		m.blocks.Delete(b)
	}
	for b.at = was; b.at < is; b.at++ {
		m.blocks.Set(b)
	}
	if old != nil {
		m.writes(old.by, -was)
	}
	if v != nil {
		m.writes(v.by, is)
	}
}

// writes adds to the blocks of a node.
func (m *Machine) writes(id Node, blocks int) {
	if id != (Node{}) && blocks != 0 {
		m.takes(id, use{blocks: blocks})
	}
}

// block is the first of the value with which a claim came.
func (c *claim) block() block { return block{name: c.name, opened: c.owner.opened, request: c.request} }
