package model

import (
	"bytes"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// clockSlack is how far the clocks of a group may be apart without a word: internal/recovery raises tokens
// beyond its clock by as much.
const clockSlack = time.Minute

// recoverEarly is an operator who recovers the group from what one node has, though other nodes live and
// grant: the way of internal/recovery, without its files. The former group goes on, and never hears of the
// recovered one. What a recovery promises then is that nothing is lost but the former group's grants, that
// no lease of today outlives the wait, and that tokens of both groups are apart.
func (w *world) recoverEarly(n *node) {
	was := n.machine.Info()
	if !was.Born || w.fail != nil {
		return
	}
	w.stats.Recovered++
	m := n.machine.Fork()
	counter := was.Counter + fsm.TokensIn(w.now-n.wrote+clockSlack)
	if err := m.Recover(fsm.Recovery{Cluster: [16]byte{2}, Counter: counter}); err != nil {
		w.broken("every state can be recovered", "node %d: %v", n.i, err)
		return
	}
	w.outlived(n, m.Info().Wait)
	w.kept(n, m)
	if m = w.reread(m); m == nil {
		return
	}
	w.account.recovered(counter)
	w.regrants(m, counter)
}

// outlived judges the wait of a recovered group: no lease that is valid now is valid after it, by a clock
// that runs as fast as clocks may. A lease that a living majority renews later is: then only tokens help.
// For a session that the state does not have, or has with a shorter TTL, the recovered group waits for its
// own Config.MaxTTL.
func (w *world) outlived(n *node, state time.Duration) {
	if w.plan.Wild {
		return
	}
	for _, t := range slices.Concat(w.valid...) {
		s := t.grant.Session()
		wait := state
		if known, there := n.machine.Session(s.ID()); !there || known.TTL < s.TTL() {
			wait = max(state, w.plan.maxTTL())
		}
		if left := t.grant.Until().Sub(t.n.now()); t.counts() && left > wait {
			w.broken("a recovered group waits for every lease", "from node %d it waits for %v, token %d is valid for %v", n.i, wait, t.token, left)
		}
	}
}

// kept judges what a recovered state has: values and finished keys as before, and no holder or waiter.
func (w *world) kept(n *node, m *fsm.Machine) {
	for _, name := range w.names {
		before, _ := n.machine.Lock(name)
		after, _ := m.Lock(name)
		if len(after.Holders)+len(after.Waiters) > 0 || !bytes.Equal(before.Value, after.Value) {
			w.broken("a recovery keeps values and ends sessions", "%q of node %d: %+v became %+v", name, n.i, before, after)
		}
		key, once := fsm.OnceKey(name)
		if !once {
			continue
		}
		was, finished := n.machine.Key(key)
		if is, still := m.Key(key); finished && (!still || was.Token != is.Token) {
			w.broken("a recovery keeps finished keys", "%q of node %d: token %d became %d", key, n.i, was.Token, is.Token)
		}
	}
}

// reread is the state as the recovered group's node finds it in its snapshot.
func (w *world) reread(m *fsm.Machine) *fsm.Machine {
	var b bytes.Buffer
	err := m.WriteSnapshot(&b, nil)
	if err == nil {
		m, err = fsm.ReadSnapshot(&b)
	}
	if err != nil {
		w.broken("a recovered state is read as it was written", "%v", err)
		return nil
	}
	return m
}

// regrants has the recovered group serve, and its one node take each lock that does not rest, and each key
// that is not finished.
func (w *world) regrants(m *fsm.Machine, counter uint64) {
	p := fsm.Process{Node: fsm.Node{0xff}, Incarnation: 1}
	apply := func(cmd fsm.Command) fsm.Outcome {
		out, _ := m.Apply(m.Applied()+1, p, fsm.Encode(cmd))
		if err := m.Check(); err != nil {
			w.broken("a recovered machine keeps its invariants", "%s: %v", describe(cmd), err)
		}
		return out
	}
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: p.Node, Incarnation: 1})
	for q, n := someQuota(m); n > 0; q, n = someQuota(m) { // they are kept; an operator removes them
		apply(fsm.SetQuota{Quota: q, Seen: m.Commands(), Reason: "operator"})
	}
	rests := slices.Collect(m.Rests())
	for i, name := range w.names {
		key, once := fsm.OnceKey(name)
		_, finished := m.Key(key)
		out := apply(fsm.Acquire{
			Session: fsm.SessionID{Node: p.Node, Incarnation: 1, Number: 1}, TTL: time.Minute, Request: uint64(i + 1), Name: name,
		})
		rest := slices.ContainsFunc(rests, func(r fsm.Rest) bool { return r.Name == name })
		switch {
		case out.Code == fsm.CodeGranted && out.Token <= counter:
			w.broken("tokens rise through a recovery", "%q: the recovered group grants %d, at most %d", name, out.Token, counter)
		case out.Code != fsm.CodeGranted && !rest && !(once && finished):
			w.broken("a recovered group grants every lock", "%q: %v", name, out)
		}
	}
}
