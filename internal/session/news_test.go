package session

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// side is a node without a group, whose replica is a machine of the test: one lease, and one call
// that waits.
type side struct {
	*testing.T
	table *Table
	calls [2]Call
	waits [2]*call
	first *hold // of the first call; nil: none
}

// newSide is a node whose session holds "held", or holds and is about to hear of it, and waits for
// "busy" or whatever else is waited for. answered says that it has its answers.
func newSide(t *testing.T, answered bool) *side {
	d := &side{T: t, table: newTable()}
	for i := range d.calls {
		d.calls[i], d.waits[i] = asks(t, d.table, time.Hour, false, begins)
	}
	if answered {
		d.hear()
	}
	return d
}

// hear brings the answers: the first request is granted, and the second waits.
func (d *side) hear() {
	h := &hold{}
	next := d.calls[0].Answered(fsm.Outcome{Code: fsm.CodeGranted, Token: 1}, false, begins)
	if next == Take && h.take(d.calls[0], 1, Terms{}, begins) {
		d.first = h
	}
	d.calls[1].Answered(fsm.Outcome{Code: fsm.CodeQueued}, false, begins)
}

// explains reports whether the lease of the first request, if it is over, says why: a holder that
// finds it so asks at once, and took nil for leave to write.
func (d *side) explains() bool {
	if d.first == nil || d.first.valid(begins) {
		return true
	}
	d.first.grant.Settle(begins)
	return d.first.grant.Err() != nil
}

// view is what the holder and the waiter see.
func (d *side) view() string {
	d.table.tellEnded()
	view := "no lease"
	if h := d.first; h != nil {
		h.grant.Settle(begins)
		if !h.valid(begins) {
			h.asked = "" // nobody lets go of what is gone
		}
		view = fmt.Sprintf("valid %v, err %v, wanted %v %q", h.valid(begins), h.grant.Err(), h.isWanted, h.asked)
	}
	w := d.waits[1]
	if !w.told {
		return view + "; the call waits"
	}
	h := &hold{}
	if w.err != nil || !h.take(d.calls[1], w.token, Terms{}, begins) {
		return view + "; the call asks again"
	}
	return fmt.Sprintf("%s; the call has token %d, wanted %v %q", view, h.grant.Token(), h.isWanted, h.asked)
}

// news is what a group carries out while a node looks elsewhere.
type news struct {
	waits string                    // what the second request waits for, "busy" if it is empty
	does  func(g *groupOf, d *side) // for each side the same
}

// here is where the node's process runs.
var here = fsm.Place{Boot: "here"}

// groupOf is the group of a test: another node holds "busy" and the key "once:k".
type groupOf struct {
	*testing.T
	m      *fsm.Machine
	told   []*fsm.Event // since the last forget
	own    fsm.SessionID
	other  fsm.SessionID
	tokens map[string]uint64
	last   uint64 // request of the other node
}

func (g *groupOf) apply(cmd fsm.Command) fsm.Outcome {
	out, events := g.m.Apply(g.m.Applied()+1, fsm.ProcessOf(cmd), fsm.Encode(cmd))
	for i := range events {
		e := events[i]
		g.told = append(g.told, &e)
	}
	return out
}

func newGroupOf(t *testing.T) *groupOf {
	g := &groupOf{T: t, m: fsm.New(), tokens: make(map[string]uint64)}
	g.own = fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
	g.other = fsm.SessionID{Node: fsm.Node{2}, Incarnation: 1, Number: 1}
	return g
}

// begin brings the group to where the news begins.
func (g *groupOf) begin(waits string) {
	g.apply(fsm.Birth{Cluster: [16]byte{1}})
	g.apply(fsm.Serve{})
	g.apply(fsm.Hello{Node: fsm.Node{1}, Incarnation: 1, Name: "own", Place: here})
	g.apply(fsm.Hello{Node: fsm.Node{2}, Incarnation: 1, Name: "other"})
	own := fsm.Acquire{Session: g.own, TTL: time.Hour, Wait: true, Request: 1, Name: "held"}
	g.tokens["held"] = g.apply(own).Token
	g.takes("busy")
	g.takes(fsm.OnceName("k"))
	own.Request, own.Name = 2, waits
	if waits == "permits" {
		own.Mode, own.Limit, own.Weight = fsm.Permit, 2, 2
		g.last++
		g.apply(fsm.Acquire{Session: g.other, TTL: time.Hour, Request: g.last, Name: waits, Terms: own.Terms})
	}
	if out := g.apply(own); out.Code != fsm.CodeQueued {
		g.Fatalf("the call for %q does not wait: %v", waits, out.Code)
	}
}

// takes lets the other node ask for a lock.
func (g *groupOf) takes(name string) {
	g.last++
	g.tokens[name] = g.apply(fsm.Acquire{Session: g.other, TTL: time.Hour, Request: g.last, Name: name}).Token
}

func (g *groupOf) waitsFor(name string) {
	g.last++
	g.apply(fsm.Acquire{Session: g.other, TTL: time.Hour, Request: g.last, Name: name, Wait: true})
}

func (g *groupOf) frees(name string, rest time.Duration) {
	g.apply(fsm.Release{Session: g.other, Grants: []fsm.Grant{{Name: name, Token: g.tokens[name]}}, Rest: rest})
}

// everyNews is every kind of event and every reason, and what of them may come before an answer.
func everyNews() map[string]news {
	renewed := func(g *groupOf) uint64 { s, _ := g.m.Session(g.own); return s.Renewed }
	all := func(cmds ...func(g *groupOf)) news {
		return news{does: func(g *groupOf, _ *side) {
			for _, f := range cmds {
				f(g)
			}
		}}
	}
	one := func(f func(g *groupOf) fsm.Command) news { return all(func(g *groupOf) { g.apply(f(g)) }) }
	force := func(g *groupOf) {
		g.apply(fsm.ForceRelease{Name: "held", Token: g.tokens["held"], Reason: "an operator's words"})
	}
	expire := func(g *groupOf) { g.apply(fsm.Expire{Session: g.own, Renewed: renewed(g)}) }
	freed := func(g *groupOf) { g.frees("busy", 0) }
	return map[string]news{
		"nothing": all(),
		"renewed": one(func(g *groupOf) fsm.Command {
			return fsm.Keep{Node: g.own.Node, Incarnation: 1, Seq: 1, Sessions: []uint64{1}}
		}),
		"session closed":     one(func(g *groupOf) fsm.Command { return fsm.CloseSession{Session: g.own} }),
		"session abandoned":  one(func(g *groupOf) fsm.Command { return fsm.CloseSession{Session: g.own, Lost: true} }),
		"session expired":    all(expire),
		"a proved successor": one(func(g *groupOf) fsm.Command { return fsm.Hello{Node: g.own.Node, Incarnation: 2, Place: here} }),
		"superseded":         one(func(g *groupOf) fsm.Command { return fsm.Hello{Node: g.own.Node, Incarnation: 2} }),
		"said good-bye":      one(func(g *groupOf) fsm.Command { return fsm.Goodbye{Node: g.own.Node, Incarnation: 1} }),
		"leaves": one(func(g *groupOf) fsm.Command {
			return fsm.Goodbye{Node: g.own.Node, Incarnation: 1, Departure: fsm.Leaves}
		}),
		"removed": one(func(g *groupOf) fsm.Command { return fsm.Remove{Node: g.own.Node, Incarnation: 1, Since: 3} }),
		"somebody is silent": one(func(g *groupOf) fsm.Command {
			return fsm.Silent{Seen: g.m.Commands(), Nodes: []fsm.Silence{{Node: fsm.Node{2}, For: time.Minute}}}
		}),
		"revoked": one(func(g *groupOf) fsm.Command {
			return fsm.Revoke{Node: g.own.Node, Upto: g.m.Commands(), Reason: "burnt"}
		}),
		"revoked in steps": one(func(g *groupOf) fsm.Command {
			g.m.Limit(fsm.Limits{Step: 1})
			return fsm.Revoke{Node: g.own.Node, Upto: g.m.Commands(), Reason: "burnt"}
		}),
		"granted":             all(freed),
		"granted and wanted":  all(freed, func(g *groupOf) { g.waitsFor("busy") }),
		"granted and forced":  all(freed, func(g *groupOf) { g.apply(fsm.ForceRelease{Name: "busy", Token: g.m.Info().Counter, Reason: "again"}) }),
		"granted and expired": all(freed, expire),
		"another is granted":  all(func(g *groupOf) { g.takes("free") }),
		"forced":              all(force),
		"forced and expired":  all(force, expire),
		"waited for":          all(func(g *groupOf) { g.waitsFor("held") }),
		"tried":               all(func(g *groupOf) { g.takes("held") }),
		"written": one(func(g *groupOf) fsm.Command {
			return fsm.SetValue{Session: g.own, Request: 3, Name: "held", Token: g.tokens["held"], Value: []byte("v")}
		}),
		"resting": all(func(g *groupOf) { g.frees("busy", time.Second) }),
		"rested": all(func(g *groupOf) { g.frees("busy", time.Second) },
			func(g *groupOf) { g.apply(fsm.EndRest{Name: "busy", Token: g.tokens["busy"]}) }),
		"withdrawn": one(func(g *groupOf) fsm.Command { return fsm.Withdraw{Session: g.own, Requests: []uint64{2}} }),
		"given back": {does: func(g *groupOf, d *side) {
			if d.first == nil {
				return // who has no lease yet cannot release it
			}
			d.first.grant.End(ErrReleased)
			g.apply(fsm.Release{Session: g.own, Grants: []fsm.Grant{{Name: "held", Token: g.tokens["held"]}}})
		}},
		"the key is finished": {waits: fsm.OnceName("k"), does: func(g *groupOf, _ *side) {
			g.apply(fsm.Finish{Session: g.other, Name: fsm.OnceName("k"), Token: g.tokens[fsm.OnceName("k")], Keep: time.Hour})
		}},
	}
}

// asking is the news of a holder that is asked to let go.
func asking() map[string]news {
	ask := func(name, reason string) func(g *groupOf) {
		return func(g *groupOf) {
			token := g.tokens[name]
			if name == "busy" {
				token = g.m.Info().Counter
			}
			g.apply(fsm.Ask{Name: name, Token: token, Reason: reason})
		}
	}
	do := func(cmds ...func(g *groupOf)) news {
		return news{does: func(g *groupOf, _ *side) {
			for _, f := range cmds {
				f(g)
			}
		}}
	}
	please := ask("held", "please")
	evict := func(why fsm.Reason) func(g *groupOf) {
		return func(g *groupOf) {
			g.apply(fsm.Evict{Node: g.own.Node, Seen: g.m.Commands(), Reason: "burnt"})
			g.apply(fsm.Evict{Node: g.own.Node, Seen: g.m.Commands(), Refusal: why})
		}
	}
	return map[string]news{
		"too few permits are left": {waits: "permits", does: func(g *groupOf, _ *side) {
			g.apply(fsm.Resize{Name: "permits", Limit: 1, Seen: g.m.Commands()})
		}},
		"a quota below what it has": do(func(g *groupOf) {
			g.apply(fsm.SetQuota{Quota: fsm.Quota{Node: g.own.Node, Locks: 1}, Seen: g.m.Commands(), Reason: "it leaks"})
		}),
		"an order about what it holds": do(func(g *groupOf) {
			g.apply(fsm.Act{By: g.own.Process(), Kind: fsm.ActForceRelease, Name: "held", Reason: "it hangs"})
		}),
		"evicted, and heard":        do(evict(fsm.ReasonHeard)),
		"evicted, and last":         do(evict(fsm.ReasonLast)),
		"somebody is to be removed": do(evict(fsm.ReasonNone)),
		"that is refused, as heard": do(evict(fsm.ReasonNone), evict(fsm.ReasonHeard)),
		"that is refused, as last":  do(evict(fsm.ReasonNone), evict(fsm.ReasonLast)),
		"granted and asked":         do(func(g *groupOf) { g.frees("busy", 0) }, ask("busy", "please")),
		"asked":                     do(please),
		"asked and tried":           do(please, func(g *groupOf) { g.takes("held") }),
		"waited for and asked":      do(func(g *groupOf) { g.waitsFor("held") }, please),
		"asked twice":               do(please, ask("held", "at once")),
		"asked and forced": do(please, func(g *groupOf) {
			g.apply(fsm.ForceRelease{Name: "held", Token: g.tokens["held"], Reason: "an operator's words"})
		}),
	}
}

// A holder whose replica caught up by a snapshot never heard that it was wanted, and its waiter
// waited for ever; and who had lost its lock to an operator was not told the reason. What reaches a
// holder or a waiter by an event must reach it by a snapshot.
func TestWhatAnEventTellsAHolderOrAWaiterASnapshotTells(t *testing.T) {
	t.Parallel()
	kinds, reasons := make(map[fsm.EventKind]bool), make(map[fsm.Reason]bool)
	all := everyNews()
	maps.Copy(all, asking())
	for name, n := range all {
		for _, answered := range []bool{true, false} {
			if n.waits == "" {
				n.waits = "busy"
			}
			var views []string
			for _, snapshot := range []bool{false, true} {
				g, d := newGroupOf(t), newSide(t, answered)
				g.begin(n.waits)
				for _, e := range g.told {
					kinds[e.Kind] = true
				}
				g.told = nil
				n.does(g, d)
				var events []fsm.Event
				for _, e := range g.told {
					events = append(events, *e)
					kinds[e.Kind], reasons[e.Reason] = true, true
				}
				if snapshot {
					restore(d.table, g.m)
				} else {
					for i := range events {
						d.table.Note(&events[i])
					}
				}
				if !answered {
					d.hear()
				} else if !d.explains() {
					t.Errorf("%s: the lease is over, and does not say why before Step has told its holder", name)
				}
				views = append(views, d.view())
				sound(t, d.table, begins)
			}
			if views[0] != views[1] {
				t.Errorf("%s, answered before %v:\nby events:     %s\nby a snapshot: %s", name, answered, views[0], views[1])
			}
		}
	}
	for k := fsm.EventBorn; !strings.HasPrefix(k.String(), "event("); k++ {
		if !kinds[k] {
			t.Errorf("no news of the kind %q", k)
		}
	}
	for r := fsm.ReasonNone; !strings.HasPrefix(r.String(), "reason("); r++ {
		if !reasons[r] {
			t.Errorf("no news for the reason %q", r)
		}
	}
}

// CI found it, once in thirty runs beside others: the question after a gap was of 28 leases, two more were
// taken and the node was revoked before its answer, and those two heard that they had not been renewed in
// time.
func TestALeaseThatIsTakenDuringTheQuestionHearsWhyItsSessionEnded(t *testing.T) {
	t.Parallel()
	g, table := newGroupOf(t), newTable()
	for _, cmd := range []fsm.Command{fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}} {
		g.apply(cmd)
	}
	take := func() *hold {
		c, _ := asks(t, table, time.Minute, false, begins)
		out := g.apply(fsm.Acquire{Session: c.Session.ID(), TTL: c.Session.TTL(), Request: c.Request, Acked: c.Acked, Name: "held", Terms: fsm.Terms{Mode: fsm.Shared}})
		h := &hold{}
		if c.Answered(out, false, begins) != Take || !h.take(c, out.Token, Terms{}, begins) {
			t.Fatal(out)
		}
		return h
	}
	held := []*hold{take()}
	err := table.Restore(func(q fsm.QueryClaims) (fsm.ClaimsState, error) {
		held = append(held, take())
		g.apply(fsm.Revoke{Node: fsm.Node{1}, Upto: g.m.Commands(), Reason: "burnt"})
		return g.m.Answer(q).(fsm.ClaimsState), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	table.tellEnded()
	for i, h := range held {
		if err := h.grant.Err(); !errors.Is(err, ErrForced) {
			t.Errorf("holder %d hears: %v", i, err)
		}
	}
	sound(t, table, begins)
}
