package membership

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

func TestWhoCannotBeOneOfUsIsKeptOut(t *testing.T) {
	t.Parallel()
	d := &delegate{table: newTable(Meta{Node: "self"}), log: newLogFilter(slog.New(slog.NewTextHandler(io.Discard, nil)))}
	good := memberlist.Node{Name: "a~7", Addr: net.IPv4(10, 0, 0, 1).To4(), Port: 1, Meta: Meta{Node: "a", Incarnation: 7}.encode(), PMin: 1, PMax: 5, PCur: 2}
	if err := d.NotifyAlive(&good); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for what, spoil := range map[string]func(*memberlist.Node){
		"name of another node": func(n *memberlist.Node) { n.Name = "b~7" },
		"name of another life": func(n *memberlist.Node) { n.Name = "a~8" },
		"no meta":              func(n *memberlist.Node) { n.Meta = nil },
		"half an address":      func(n *memberlist.Node) { n.Addr = n.Addr[:2] },
		"no port":              func(n *memberlist.Node) { n.Port = 0 },
		"later protocols only": func(n *memberlist.Node) { n.PMin = 3 },
		"early protocols only": func(n *memberlist.Node) { n.PMax = 1 },
		"another protocol":     func(n *memberlist.Node) { n.PCur = 3 },
		"another delegate":     func(n *memberlist.Node) { n.DCur = 1 },
		"later delegates only": func(n *memberlist.Node) { n.DMin = 1 },
	} {
		bad := good
		spoil(&bad)
		if d.NotifyAlive(&bad) == nil {
			t.Errorf("%s was let in", what)
		}
	}
}

func TestInventedMembersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &delegate{table: newTable(Meta{Node: "self"}), log: newLogFilter(slog.New(slog.DiscardHandler))}
		invent := func(i int) bool {
			meta := Meta{Node: fmt.Sprint("n", i), Incarnation: 1}
			n := memberlist.Node{Name: meta.listName(), Addr: net.IPv4(10, 0, 0, 1).To4(), Port: 1, Meta: meta.encode(), PMin: 1, PMax: 5, PCur: 2}
			if d.NotifyAlive(&n) != nil {
				return false
			}
			d.NotifyJoin(&n)
			return true
		}
		let := 0
		for i := range 3 * membersMax {
			if invent(i) {
				let++
			}
		}
		if let != membersMax || len(d.table.list()) != membersMax {
			t.Errorf("%d were let in, %d are remembered; want %d", let, len(d.table.list()), membersMax)
		}
		if !invent(0) {
			t.Error("a member that is here was refused news of itself")
		}
		// Those that come and go are remembered for a while by memberlist.
		for i := range membersMax {
			d.NotifyLeave(&memberlist.Node{Name: fmt.Sprintf("n%d~1", i)})
		}
		if invent(4 * membersMax) {
			t.Error("one more came without a pause")
		}
		time.Sleep(time.Minute)
		for let = 0; invent(5*membersMax + let); {
			let++
		}
		if let > 60*newcomersPerSec || let < 50*newcomersPerSec {
			t.Errorf("%d came after a minute", let)
		}
	})
}

// memberlist tells of a probe that was answered over TCP alone after it has given the member up,
// too. Such names were never dropped: with enough of them, those who are here and hear no packets
// were hardly chosen for an exchange.
func TestWhoLeftIsNotChosenForAnExchangeByStream(t *testing.T) {
	t.Parallel()
	d := &delegate{table: newTable(Meta{Node: "self"})}
	d.table.alive(Meta{Node: "here", Incarnation: 1}, "10.0.0.1:1", time.Now())
	for i := range 1000 {
		d.unheard(fmt.Sprintf("gone%d~1", i))
	}
	d.unheard("here~1")
	if nodes := d.deafest(2); len(nodes) != 1 || nodes[0] != "here" || len(d.deaf) != 1 {
		t.Errorf("chosen: %v; %d are remembered", nodes, len(d.deaf))
	}
}
