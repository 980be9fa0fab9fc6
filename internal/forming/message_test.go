package forming_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/forming"
)

func TestMessagesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := forming.Message{
			Kind:               forming.Kind(rapid.IntRange(int(forming.VoteRequest), int(forming.Answer)).Draw(t, "kind")),
			From:               rapid.StringN(1, 16, forming.IDMax).Draw(t, "from"),
			To:                 rapid.StringN(1, 16, forming.IDMax).Draw(t, "to"),
			Ballot:             rapid.Uint64Min(1).Draw(t, "ballot"),
			Granted:            rapid.Bool().Draw(t, "granted"),
			Unix:               rapid.Int64().Draw(t, "unix"),
			Cluster:            rapid.StringN(1, 16, forming.IDMax).Draw(t, "cluster"),
			Alone:              rapid.Bool().Draw(t, "alone"),
			Birth:              rapid.Uint64().Draw(t, "birth"),
			Replica:            rapid.Uint64Min(1).Draw(t, "replica"),
			AfterLeave:         rapid.Bool().Draw(t, "left"),
			DuplicateDirectory: rapid.Bool().Draw(t, "copied"),
			Lives:              rapid.Bool().Draw(t, "lives"),
		}
		b := protowire.AppendTag(m.Encode(), 99, protowire.Fixed64Type) // of a later version
		b = protowire.AppendFixed64(b, 1)
		if got, err := forming.Decode(b); err != nil || got != m {
			t.Fatalf("%+v, %v; want %+v", got, err, m)
		}
	})
}

func TestWhatNoNodeWouldSendIsMalformed(t *testing.T) {
	t.Parallel()
	good := forming.Message{Kind: forming.VoteRequest, From: "a", To: "b", Ballot: 1}
	for name, change := range map[string]func(*forming.Message){
		"no kind":         func(m *forming.Message) { m.Kind = 0 },
		"unknown kind":    func(m *forming.Message) { m.Kind = 4 },
		"a kind of later": func(m *forming.Message) { m.Kind = forming.Answer + 1 },
		"no claim":        func(m *forming.Message) { m.Kind = forming.Answer },
		"of no replica":   func(m *forming.Message) { m.Kind, m.Cluster = forming.Removed, "c" },
		"no sender":       func(m *forming.Message) { m.From = "" },
		"no receiver":     func(m *forming.Message) { m.To = "" },
		"no ballot":       func(m *forming.Message) { m.Ballot = 0 },
		"a long id":       func(m *forming.Message) { m.From = strings.Repeat("x", forming.IDMax+1) },
		"a huge message":  func(m *forming.Message) { m.From = strings.Repeat("x", 1<<20) },
	} {
		m := good
		change(&m)
		if _, err := forming.Decode(m.Encode()); !errors.Is(err, forming.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good = forming.Message{Kind: forming.VoteReply, From: "a", To: "b", Ballot: 1, Granted: true, Unix: 5}
	whole := good.Encode()
	for n := range whole {
		if m, err := forming.Decode(whole[:n]); err == nil && m == good {
			t.Errorf("the first %d bytes of %d are read as the whole", n, len(whole))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(forming.Message{Kind: forming.VoteReply, From: "a", To: "b", Ballot: 1 << 40, Granted: true, Unix: -1}.Encode())
	f.Add([]byte{0x0b})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := forming.Decode(b)
		if err != nil {
			return
		}
		if again, err := forming.Decode(m.Encode()); err != nil || again != m {
			t.Fatalf("%+v is read back as %+v, %v", m, again, err)
		}
	})
}
