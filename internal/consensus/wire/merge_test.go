package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

func passedOn(to uint64, keys ...uint64) raftpb.Message {
	m := raftpb.Message{Type: raftpb.Propose, From: 1, To: to, ShardID: engine.Shard}
	for _, key := range keys {
		m.Entries = append(m.Entries, raftpb.Entry{Key: key, Cmd: []byte{1}})
	}
	return m
}

func acknowledgement(term, index uint64, reject bool) raftpb.Message {
	return raftpb.Message{Type: raftpb.ReplicateResp, From: 1, To: 2, ShardID: engine.Shard, Term: term, LogIndex: index, Reject: reject}
}

// effect is what a replica learns from messages: the proposals in their order, and how far each
// term is acknowledged between the messages that may not be passed over.
func effect(messages []raftpb.Message) (list []string) {
	acked, term := "", uint64(0)
	for _, m := range messages {
		if m.Type == raftpb.ReplicateResp && !m.Reject {
			if m.Term != term {
				list = append(list, acked)
			}
			acked, term = fmt.Sprint("acknowledged ", m.Term, m.LogIndex), m.Term
			continue
		}
		list = append(list, acked)
		acked = ""
		for _, e := range m.Entries {
			list = append(list, fmt.Sprint("proposed ", e.Key, " to ", m.To))
		}
		if m.Type != raftpb.Propose {
			list = append(list, fmt.Sprint(m.Type, m.Reject, m.LogIndex, m.Term))
		}
	}
	return slices.DeleteFunc(append(list, acked), func(s string) bool { return s == "" })
}

func TestMergedMessagesSayTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var messages []raftpb.Message
		key, index := uint64(0), uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "messages") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0, 1, 2:
				key++
				messages = append(messages, passedOn(rapid.Uint64Range(2, 3).Draw(t, "to"), key, key+1000))
			case 3, 4:
				index += rapid.Uint64Range(0, 3).Draw(t, "step")
				messages = append(messages, acknowledgement(rapid.Uint64Range(1, 2).Draw(t, "term"), index, rapid.IntRange(0, 9).Draw(t, "reject") == 0))
			default:
				messages = append(messages, raftpb.Message{Type: raftpb.HeartbeatResp, From: 1, To: 2, ShardID: engine.Shard, Term: 1})
			}
		}
		whole := slices.Clone(messages)
		before := effect(whole)
		merged := merge(messages)
		if after := effect(merged); !slices.Equal(after, before) {
			t.Fatalf("%v became %v", before, after)
		}
		for i := 1; i < len(merged); i++ {
			if a, b := merged[i-1], merged[i]; a.Type == raftpb.Propose && b.Type == raftpb.Propose && a.To == b.To {
				t.Fatal("two proposals in a row are left apart")
			}
		}
	})
}

func TestMergingTouchesNoEntriesOfTheEngine(t *testing.T) {
	t.Parallel()
	entries := make([]raftpb.Entry, 1, 10) // with room behind it that belongs to the engine
	entries[0] = raftpb.Entry{Key: 1}
	first := passedOn(2)
	first.Entries = entries
	merged := merge([]raftpb.Message{first, passedOn(2, 2), passedOn(2, 3)})
	if len(merged) != 1 || len(merged[0].Entries) != 3 {
		t.Fatalf("merged to %v", merged)
	}
	if entries[:2][1].Key != 0 {
		t.Error("the engine's slice was written to")
	}
}

func TestMergedMessagesAreBounded(t *testing.T) {
	t.Parallel()
	var messages []raftpb.Message
	for key := range uint64(3*mergedMax + 1) {
		messages = append(messages, passedOn(2, key))
	}
	merged := merge(messages)
	if len(merged) != 4 || len(merged[0].Entries) != mergedMax {
		t.Errorf("%d messages, the first of %d entries", len(merged), len(merged[0].Entries))
	}
}
