package consensus

import (
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

// An entry of the log is who proposed it, and then the command. The proposer writes its own process
// there, and whoever takes a proposal from another replica compares it with the process at the
// other end of the connection. So the state machine, which is shown the author, can tell whose
// sessions a command may end.
const encodingBytes = 1 // the engine's, before what was proposed

// cutEncoded takes an entry apart, as the engine has it. One that is too short is of nobody, and
// has no command.
func cutEncoded(e *raftpb.Entry) (by fsm.Process, cmd []byte) {
	if e.Type != raftpb.EncodedEntry || len(e.Cmd) < encodingBytes {
		return by, nil
	}
	by, cmd, _ = fsm.CutProcess(e.Cmd[encodingBytes:])
	return by, cmd
}

// ownProposals drops what a replica passes on of another's commands: a follower does so with what
// it was sent as raft leader. The other one proposes again.
func ownProposals(messages []raftpb.Message, by fsm.Process) []raftpb.Message {
	kept := messages[:0]
	for _, m := range messages {
		if m.Type == raftpb.Propose {
			own := m.Entries[:0]
			for _, e := range m.Entries {
				author, _ := cutEncoded(&e)
				if e.Type == raftpb.ConfigChangeEntry || author == by {
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
