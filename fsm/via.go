package fsm

import "crypto/sha256"

// Via is a command of a client, which has no replica: the replica that the client is connected to
// proposes it, and vouches for its author. So commands of many clients and of the replica itself
// share a Batch. The author is the process that the command is about. CodeForbidden for a process
// of a node that is not bound to a key (see KeyNode), and for any command but Acquire, Withdraw,
// Release, SetValue, Keep, CloseSession, Finish, Hello, Goodbye, and those of an operator:
// ForceRelease, Revoke, Forget, Ask, Resize, SetQuota and Act.
type Via struct{ Command Command }

// about is of no process: any replica may propose it.
func (Via) about() (op, Process) { return opVia, Process{} }

// Allowed reports whether a client may say the command at all.
func (c Via) Allowed() bool {
	operation, of := c.Command.about()
	return operation.ofClient() && (of == Process{} || of.Node.Bound())
}

func (o op) ofClient() bool {
	switch o {
	case opKeep, opHello, opGoodbye, opForceRelease, opRevoke, opForget, opAsk, opResize, opSetQuota, opAct:
		return true
	}
	return o.travels()
}

// AppendVia appends the beginning of an encoded Via. The encoded command follows.
func AppendVia(b []byte) []byte { return appendHeader(b, opVia) }

// cutVia returns the command within an encoded Via, and any other command as it is.
func cutVia(cmd []byte) (inner []byte, via bool) {
	if len(cmd) >= 2 && cmd[0] == commandVersion && op(cmd[1]) == opVia {
		return cmd[2:], true
	}
	return cmd, false
}

// KeyNode is the id of the client that holds a public key: a UUID of version 8, made of the key's
// SHA-256. A node whose directory has a key has such an id, too; other ids of nodes with a replica are
// random, of version 4. So no client can take the id of another node without its key, whatever the group
// remembers.
func KeyNode(key []byte) (n Node) {
	sum := sha256.Sum256(append([]byte("holdfast client v1\x00"), key...))
	copy(n[:], sum[:])
	n[6], n[8] = n[6]&0x0f|0x80, n[8]&0x3f|0x80
	return n
}

// Bound reports whether the id is bound to a key, as that of each client is. It does not tell a
// client from a node with a replica.
func (n Node) Bound() bool { return n[6]>>4 == 8 && n[8]>>6 == 2 }
