package wire

import "github.com/lni/dragonboat/v4/raftpb"

// mergedMax bounds the entries of a merged message.
const mergedMax = 4096

// merge merges messages that wait for one replica, in place and to the same effect. The engine
// handles each message by itself: for each proposal that is passed on, and each acknowledgement
// that commits something, a raft leader writes to all others, and each of them answers. With some
// hundred proposals at a time that traffic overflows a receive queue of 1,024 messages, and each
// lost message costs its timeout. So proposals in a row become one message, and of acknowledgements
// in a row the last one remains, which covers the others.
func merge(messages []raftpb.Message) []raftpb.Message {
	kept := messages[:0]
	for len(messages) > 0 {
		n := alike(messages)
		kept = append(kept, joined(messages[:n]))
		messages = messages[n:]
	}
	return kept
}

// alike is how many of the first messages merge into one.
func alike(messages []raftpb.Message) int {
	first, entries := &messages[0], len(messages[0].Entries)
	n := 1
	for ; n < len(messages); n++ {
		m := &messages[n]
		if m.Type != first.Type || m.From != first.From || m.To != first.To || m.ShardID != first.ShardID || m.Term != first.Term {
			break
		}
		entries += len(m.Entries)
		merges := m.Type == raftpb.Propose && entries <= mergedMax ||
			m.Type == raftpb.ReplicateResp && !m.Reject && !first.Reject && m.LogIndex >= messages[n-1].LogIndex
		if !merges {
			break
		}
	}
	return n
}

// joined merges messages that are alike.
func joined(messages []raftpb.Message) raftpb.Message {
	last := messages[len(messages)-1]
	if last.Type != raftpb.Propose || len(messages) == 1 {
		return last
	}
	total := 0
	for i := range messages {
		total += len(messages[i].Entries)
	}
	entries := make([]raftpb.Entry, 0, total) // not in the engine's own slices
	for i := range messages {
		entries = append(entries, messages[i].Entries...)
	}
	last.Entries = entries
	return last
}
