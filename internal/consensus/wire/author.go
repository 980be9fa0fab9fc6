package wire

import (
	"bytes"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

// An entry of the log is its author and then the command. The proposer writes its own process as
// the author, and a replica compares it with the process at the other end of the connection. So the
// state machine can tell whose sessions a command may end.
const encodingBytes = 1 // the engine's, before the author

// cutEncoded returns the author and the command of an entry. An entry that is too short has
// neither.
func cutEncoded(e *raftpb.Entry) (by fsm.Process, cmd []byte) {
	if e.Type != raftpb.EncodedEntry || len(e.Cmd) < encodingBytes {
		return by, nil
	}
	by, cmd, _ = fsm.CutProcess(e.Cmd[encodingBytes:])
	return by, cmd
}

// Command returns the author and the command of an entry; false if it carries none.
func Command(e *raftpb.Entry) (by fsm.Process, cmd []byte, ok bool) {
	by, cmd = cutEncoded(e)
	return by, cmd, e.Type == raftpb.EncodedEntry
}

// ownProposals drops proposals of other processes. A follower passes them on if they were sent to
// it as raft leader; their proposers try again. It drops all changes of the membership: a raft leader
// proposes them to itself, and one that lost its place with a change under way has decided by what it
// heard before.
func ownProposals(messages []raftpb.Message, by fsm.Process) []raftpb.Message {
	kept := messages[:0]
	for _, m := range messages {
		if m.Type == raftpb.Propose {
			own := m.Entries[:0]
			for _, e := range m.Entries {
				author, _ := cutEncoded(&e)
				if e.Type != raftpb.ConfigChangeEntry && author == by {
					own = append(own, e)
				}
			}
			if m.Entries = own; len(own) == 0 {
				continue
			}
		}
		kept = append(kept, m)
	}
	return kept
}

// Hellos returns the Hello of an entry that carries one.
func Hellos() func(*raftpb.Entry) (fsm.Hello, bool) {
	header := fsm.Encode(fsm.Hello{})[:2]
	return func(e *raftpb.Entry) (hello fsm.Hello, ok bool) {
		by, encoded := cutEncoded(e)
		if !bytes.HasPrefix(encoded, header) {
			return hello, false
		}
		cmd, err := fsm.Decode(encoded)
		if err == nil {
			hello, ok = cmd.(fsm.Hello)
		}
		return hello, ok && fsm.ProcessOf(hello) == by
	}
}
