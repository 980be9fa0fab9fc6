package fsm

import (
	"time"

	"pgregory.net/rapid"
)

// requests are numbers that sessions use more than once, by mistake or in a duplicate.
const requests = 12

// request is mostly a new number.
func (w *world) request() uint64 {
	if rapid.IntRange(0, 3).Draw(w.T, "new") > 0 {
		w.next++
		return requests + w.next
	}
	return w.draw("request", requests)
}

// batch draws commands of one process that travel together, and now and then one that must not.
func (w *world) batch() Batch {
	var b Batch
	for range rapid.IntRange(1, 6).Draw(w.T, "size") {
		c := w.command()
		fits := Batch{[]Command{c}}.sound() && (ProcessOf(c) == (Process{}) || len(b.Commands) == 0 || ProcessOf(c) == ProcessOf(b))
		if fits || rapid.IntRange(0, 30).Draw(w.T, "misfit") == 0 {
			b.Commands = append(b.Commands, c)
		}
	}
	return b
}

// direct draws a command. Tokens are those that were granted: a caller knows no others.
func (w *world) direct() Command {
	t := w.T
	id := SessionID{w.node(), uint64(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "incarnation")), w.draw("session", 3)}
	if last, left := w.m.Unfinished(); left && rapid.IntRange(0, 4).Draw(t, "go on") == 0 {
		return Continue{last}
	}
	switch rapid.IntRange(0, 40).Draw(t, "command") {
	case 40:
		return w.rare(id)
	case 35, 36, 37, 38, 39:
		return w.kind(id)
	case 0:
		return Birth{[16]byte{byte(w.draw("cluster", 2))}, 0, uint32(w.draw("bootstrap", 3)), uint32(w.draw("voters", 3))}
	case 1:
		if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
			return RaiseTTL{rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, time.Second}).Draw(t, "longest")}
		}
		return Serve{}
	case 2:
		return Level{w.draw("level", 3)}
	case 3:
		return Hello{id.Node, w.draw("new incarnation", 4), rapid.SampledFrom([]string{"", "n"}).Draw(t, "name"), rapid.SampledFrom(places).Draw(t, "place"), w.draw("known", 6)}
	case 4, 17, 18, 19:
		return w.departure(id)
	case 5, 14, 15, 16:
		if len(w.o.claims) > 0 && rapid.Bool().Draw(t, "live") {
			c := rapid.SampledFrom(w.o.claims).Draw(t, "claim")
			return Withdraw{c.Session, w.acked(), []uint64{c.Request}}
		}
		return Withdraw{id, w.acked(), []uint64{w.draw("request", requests), w.draw("request", requests)}}
	case 6, 7, 8:
		rest := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "rest")
		return Release{id, w.acked(), []Grant{w.grant(), w.grant()}, rest, w.draw("close", 3) == 3}
	case 9:
		value := rapid.SampledFrom([][]byte{nil, {}, []byte("new")}).Draw(t, "value")
		g := w.grant()
		return SetValue{id, w.request(), w.acked(), g.Name, g.Token, value}
	case 10:
		if rapid.Bool().Draw(t, "timed") {
			return Keep{id.Node, id.Incarnation, w.draw("seq", 5), 0, []uint64{id.Number}, time.Duration(w.draw("ttl", 3)) * time.Second}
		}
		return Keep{id.Node, id.Incarnation, w.draw("seq", 5), w.draw("lowest", 2) - 1, []uint64{id.Number, w.draw("session", 3)}, 0}
	case 11:
		return CloseSession{id, rapid.Bool().Draw(t, "lost")}
	case 12:
		renewed := w.draw("renewed", int(w.o.number)+1)
		if s := w.o.session(id); s != nil && rapid.Bool().Draw(t, "right") {
			renewed = s.Renewed
		}
		return Expire{id, renewed}
	case 13:
		g := w.grant()
		if reason := rapid.SampledFrom([]string{"", "please", "now"}).Draw(t, "asked"); reason != "" {
			return Ask{g.Name, g.Token, reason}
		}
		return ForceRelease{g.Name, g.Token, "because"}
	}
	return w.acquire(id)
}

func (w *world) acquire(id SessionID) Acquire {
	t := w.T
	c := Acquire{
		Session: id, TTL: rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, 0}).Draw(t, "ttl"),
		Request: w.request(), Acked: w.acked(), Name: w.name(),
		Wait: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "wait"),
	}
	c.Priority = int32(rapid.IntRange(-1, 1).Draw(t, "priority"))
	c.Label = rapid.SampledFrom([]string{"", "l"}).Draw(t, "label")
	c.Mode = w.mode(c.Name)
	c.Delay = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "delay")
	if rapid.IntRange(0, 2).Draw(t, "nested") == 0 {
		c.While = []uint64{w.grant().Token}
		c.Refuse = rapid.Bool().Draw(t, "refuse")
	}
	switch {
	case isOnce(c.Name):
		c.Mode = Exclusive
	case c.Mode != Permit && rapid.IntRange(0, 3).Draw(t, "set") == 0:
		for _, name := range rapid.Permutation([]string{"x", "xx", "y", "z"}).Draw(t, "names")[:rapid.IntRange(1, 4).Draw(t, "size")] {
			if name != c.Name {
				c.Others = append(c.Others, name)
			}
		}
	}
	c.Election = c.Mode == Exclusive && len(c.Others) == 0 && !isOnce(c.Name) && rapid.Bool().Draw(t, "election")
	if c.Mode == Permit {
		c.Limit, c.Weight = uint32(rapid.SampledFrom([]int{3, 3, 2}).Draw(t, "limit")), uint32(w.draw("weight", 3))
	}
	if rapid.Bool().Draw(t, "has value") {
		c.HasValue, c.Value = true, rapid.SampledFrom([][]byte{nil, {}, []byte("v"), long}).Draw(t, "value")
	}
	return c
}

// rare draws a command that there are few of.
func (w *world) rare(id SessionID) Command {
	t := w.T
	if rapid.IntRange(0, 2).Draw(t, "silent") == 0 {
		return Silent{w.draw("seen", int(w.o.number)+1), []Silence{{id.Node, time.Duration(w.draw("silence", 3)-1) * time.Second}}}
	}
	if rapid.IntRange(0, 2).Draw(t, "evict") == 0 {
		return Evict{
			id.Node, rapid.SampledFrom([]uint64{0, 1, w.o.evicted, w.o.number, w.o.number + 1}).Draw(t, "seen"),
			rapid.SampledFrom([]string{"", "burnt"}).Draw(t, "words"),
			rapid.SampledFrom([]Reason{ReasonNone, ReasonHeard, ReasonLast, ReasonLeft}).Draw(t, "refusal"),
		}
	}
	if rapid.Bool().Draw(t, "act") {
		return Act{By: id.Process(), Kind: ActKind(w.draw("act's kind", 4) - 1), Node: w.node(), Reason: "burnt"}
	}
	return Raise{rapid.SampledFrom([]uint64{0, 1, w.o.counter, w.o.counter + 2, w.o.limits.token + 1}).Draw(t, "counter")}
}

// kind draws a command about Once keys and rests.
func (w *world) kind(id SessionID) Command {
	t := w.T
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 8, 9:
		return w.setQuota()
	case 6, 7:
		return w.resize()
	case 5:
		k := w.o.keys[OnceName("k")] // its token, or one above it
		return Forget{OnceName("k"), k.Token + w.draw("wrong", 2) - 1}
	case 0, 1, 2:
		g := w.keyGrant()
		keep := rapid.SampledFrom([]time.Duration{1, 150, 70_001}).Draw(t, "keep") * time.Millisecond
		if c := w.o.holders(g.Name); len(c) > 0 && rapid.IntRange(0, 3).Draw(t, "owner") > 0 {
			id = c[0].Session
		}
		return Finish{id, w.acked(), g.Name, g.Token, keep}
	case 3:
		if all := w.o.classes(); len(all) > 0 {
			k := rapid.SampledFrom(all).Draw(t, "class")
			if rapid.Bool().Draw(t, "sweep") {
				return Sweep{k.Keep, k.Over}
			}
			return Turn{k.Keep, k.Last}
		}
		return Turn{time.Millisecond, w.o.number + 1}
	default:
		if len(w.o.rests) > 0 {
			r := rapid.SampledFrom(w.o.rests).Draw(t, "rest")
			return EndRest{r.Name, r.Token}
		}
		return EndRest{w.name(), w.draw("token", 5)}
	}
}

func (w *world) draw(what string, highest int) uint64 {
	return uint64(rapid.IntRange(1, highest).Draw(w.T, what))
}

// acked is mostly low, so that requests come again which the client has not heard of.
func (w *world) acked() uint64 {
	if rapid.IntRange(0, 4).Draw(w.T, "heard") == 0 {
		return w.draw("acked", requests+int(w.next)+1)
	}
	return w.draw("acked", 4) - 1
}

func (w *world) node() Node {
	return rapid.SampledFrom([]Node{{'a'}, {'a'}, {'a'}, {'b'}, {'b'}, bound, client}).Draw(w.T, "node")
}

func (w *world) name() string {
	return rapid.SampledFrom([]string{"x", "x", "x", "xx", "y", "z", "p", "p", OnceName("k")}).Draw(w.T, "lock")
}

// names are all that may be drawn.
func names() []string { return []string{"x", "xx", "y", "z", "p", OnceName("k")} }

// keyGrant is mostly the current one of the Once key.
func (w *world) keyGrant() Grant {
	for _, c := range w.o.holders(OnceName("k")) {
		if rapid.IntRange(0, 3).Draw(w.T, "current") > 0 {
			return Grant{c.Name, c.token}
		}
	}
	return Grant{OnceName("k"), uint64(rapid.IntRange(0, int(w.o.counter)).Draw(w.T, "token"))}
}

// grant is mostly a current one.
func (w *world) grant() Grant {
	var held []Grant
	for _, c := range w.o.claims {
		if c.token != 0 {
			held = append(held, Grant{c.Name, c.token})
		}
	}
	if len(held) > 0 && rapid.IntRange(0, 3).Draw(w.T, "current") > 0 {
		return rapid.SampledFrom(held).Draw(w.T, "grant")
	}
	return Grant{w.name(), uint64(rapid.IntRange(0, int(w.o.counter)).Draw(w.T, "token"))}
}
