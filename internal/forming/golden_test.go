package forming

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// Nodes of several versions form a group together, and a raft leader of one speaks to those of another.
func TestMessagesAreWrittenAndReadAsTheyWere(t *testing.T) {
	t.Parallel()
	written(t, "testdata/messages.v1", false, VoteRequest, TakeOver)
	written(t, "testdata/client.v1", false, Client, Client)
	written(t, "testdata/lives.v1", true, Answer, Answer)
}

// written checks the messages of some kinds.
func written(t *testing.T, path string, lives bool, from, upto Kind) {
	var b bytes.Buffer
	for kind := from; kind <= upto; kind++ {
		m := Message{
			Kind: kind, From: "a", To: "b", Ballot: 3, Granted: true, Unix: 1_700_000_000, Cluster: "c", Alone: true,
			Birth: 1 << 50, Replica: 1 << 60, AfterLeave: true, DuplicateDirectory: true, Lives: lives,
		}
		fmt.Fprintf(&b, "%d %x\n", kind, m.Encode())
		if got, err := Decode(m.Encode()); err != nil || got != m {
			t.Errorf("%+v is read as %+v: %v", m, got, err)
		}
	}
	frozen.Check(t, path, b.Bytes())
}
