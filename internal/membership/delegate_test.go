package membership

import (
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/hashicorp/memberlist"
)

func TestWhoCannotBeOneOfUsIsKeptOut(t *testing.T) {
	t.Parallel()
	d := &delegate{table: newTable(Meta{Node: "self"}), journal: newJournal(slog.New(slog.NewTextHandler(io.Discard, nil)))}
	good := memberlist.Node{Name: "a~7", Addr: net.IPv4(10, 0, 0, 1).To4(), Port: 1, Meta: Meta{Node: "a", Incarnation: 7}.encode()}
	if err := d.NotifyAlive(&good); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for what, spoil := range map[string]func(*memberlist.Node){
		"name of another node": func(n *memberlist.Node) { n.Name = "b~7" },
		"name of another life": func(n *memberlist.Node) { n.Name = "a~8" },
		"no meta":              func(n *memberlist.Node) { n.Meta = nil },
		"half an address":      func(n *memberlist.Node) { n.Addr = n.Addr[:2] },
		"no port":              func(n *memberlist.Node) { n.Port = 0 },
	} {
		bad := good
		spoil(&bad)
		if d.NotifyAlive(&bad) == nil {
			t.Errorf("%s was let in", what)
		}
	}
}
