package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Reason is what operators give, which everybody is told.
const Reason = "an operator wants it"

// look looks at a lock, or at all of the set, and asks about the tokens of the holders. Now and
// then it is an operator who does not like what is seen.
func (n *Node) look(c *holdfast.Cluster, r *rand.Rand) {
	all := n.all()
	k := all[r.IntN(len(all))]
	if k.joins {
		_, _ = n.list(c, setPrefix)
	} else if info, err := n.inspect(c, k.Name); err == nil {
		for _, h := range info.Holders {
			n.verify(c, k.Name, h.Token)
			if Chance(r, 5) {
				n.force(c, k.Name, h.Token)
			}
		}
		n.why(c, k)
	}
	if token := n.who(c); token != 0 && Chance(r, 2) {
		n.force(c, Election, token)
	}
}

// inspect asks who has a lock and who waits, and complains about what cannot be.
func (n *Node) inspect(c *holdfast.Cluster, name string) (holdfast.LockInfo, error) {
	e := n.call(history.Look, name)
	n.add(e)
	info, err := c.Inspect(Within(callLimit), name)
	if err != nil {
		n.Understand(c, "inspecting", err)
		return info, err
	}
	n.add(n.looked(e, info))
	for _, past := range info.Past {
		if slices.ContainsFunc(info.Holders, func(h holdfast.Holder) bool { return h.Token == past.Token }) {
			n.wrong("token %d holds %q and stands among the grants that are over: %+v", past.Token, name, past)
		}
	}
	if len(info.Holders) == 0 && len(info.Waiters) > 0 && info.Delayed == 0 {
		n.wrong("%q is free and somebody waits: %+v", name, info)
	}
	return info, nil
}

func (n *Node) list(c *holdfast.Cluster, prefix string) (map[string]holdfast.LockInfo, error) {
	e := n.call(history.Look, prefix)
	n.add(e)
	infos := make(map[string]holdfast.LockInfo)
	for info, err := range c.Locks(Within(callLimit), prefix) {
		if err != nil {
			n.Understand(c, "listing", err)
			return nil, err
		}
		infos[info.Name] = info
	}
	for _, name := range n.under(prefix) {
		e.Lock = name
		n.add(n.looked(e, infos[name]))
	}
	return infos, nil
}

func (n *Node) looked(e history.Event, info holdfast.LockInfo) history.Event {
	e.Kind, e.Value, e.Tokens = history.Looked, valueOf(info.Value), []uint64{}
	for _, h := range info.Holders {
		e.Tokens = append(e.Tokens, uint64(h.Token))
	}
	for _, h := range info.Waiters {
		if op := n.opOf(h); op != 0 { // else a call without a number: of Drain
			e.Queue = append(e.Queue, op)
		}
	}
	return e
}

// opOf is the number of the call of who holds or waits; 0: it has none.
func (n *Node) opOf(h holdfast.Holder) uint64 {
	if h.Label == "" {
		return 0
	}
	op, err := strconv.ParseUint(h.Label, 10, 64)
	if err != nil {
		n.wrong("the label %q", h.Label)
	}
	return op
}

// why asks why a lock cannot be had. Nobody here holds one lock while it waits for another, and
// nobody asks for more time than the TTL or a rest.
func (n *Node) why(c *holdfast.Cluster, k Kind) {
	b, err := c.WhyBlocked(Within(callLimit), k.Name)
	if err != nil {
		n.Understand(c, "asking why", err)
		return
	}
	ttl, rest := max(k.TTL, n.terms.TTL), max(k.MinHold, k.LockDelay)+time.Millisecond
	long := slices.ContainsFunc(b.Holders, func(h holdfast.Hold) bool { return h.Remaining > ttl }) ||
		slices.ContainsFunc(b.Rests, func(r holdfast.Rest) bool { return r.Remaining > rest })
	if long || len(b.Cycles) > 0 {
		n.wrong("%q is said to be blocked by what cannot be: %+v", k.Name, b)
	}
}

func (n *Node) force(c *holdfast.Cluster, name string, token holdfast.Token) {
	e := n.call(history.Force, name)
	e.Token = uint64(token)
	n.add(e)
	err := c.ForceRelease(Within(callLimit), name, token, Reason)
	if err != nil {
		n.Understand(c, "freeing a lock by force", err, holdfast.ErrStaleToken)
	}
	e.Kind, e.OK = history.Forced, err == nil
	n.add(e)
}

// Revoke frees all that a node holds, as an operator does who takes it for dead.
func (n *Node) Revoke(id string) {
	c := n.host.Cluster()
	if c == nil {
		return
	}
	e := n.call(history.Revoke, "")
	e.Value = id
	n.add(e)
	err := c.RevokeNode(Within(callLimit), id, Reason)
	if err != nil {
		n.Understand(c, "revoking a node", err)
	}
	e.Kind, e.OK = history.Revoked, err == nil
	n.add(e)
}

func (n *Node) wrong(format string, args ...any) {
	n.record.Wrong(n.host.Index(), fmt.Sprintf(format, args...))
}

const (
	retryPause = 50 * time.Millisecond
	clearMax   = 10 * time.Second
)

// Serve takes and releases a lock of the node's own until that works once, which is recorded, or
// ctx ends. It is another lock each time, as what a process took that did not live to hear of it is
// held until its TTL.
func (n *Node) Serve(ctx context.Context) {
	for ctx.Err() == nil {
		if c := n.host.Cluster(); c != nil {
			l, err := c.Acquire(Within(callLimit), fmt.Sprint("own ", n.record.Op()))
			if err == nil && l.Release(Within(callLimit)) == nil {
				n.add(n.event(history.Served, ""))
				return
			}
		}
		time.Sleep(retryPause)
	}
}

// Drain takes every lock and set whole, and gives it back: nothing may be stuck. Nobody waits for
// the end of the longest leases: an operator frees what the dead hold.
func (n *Node) Drain() {
	c := n.host.Cluster()
	if c == nil {
		return // it could not be opened, which was told
	}
	all := append(n.all(), Plain(ballast))
	for i, name := range setNames() {
		k := Plain(name)
		k.others = append(setNames()[:i:i], setNames()[i+1:]...)
		all = append(all, k)
	}
	for _, k := range all {
		if k.TTL > n.terms.WaitMax {
			n.clear(c, k.Name)
		}
		patience := max(n.terms.TTL, min(k.TTL, n.terms.WaitMax)) + n.terms.Late + k.MinHold + k.LockDelay
		l, err := k.ask(Within(patience), c, true, k.whole())
		if err != nil {
			info, _ := c.Inspect(Within(callLimit), k.Name)
			n.wrong("at the end %q cannot be had: %v; %+v", k.names(), err, info)
			continue
		}
		if err := l.Release(Within(patience)); err != nil {
			n.wrong("at the end %q cannot be released: %v", k.names(), err)
		}
	}
}

func (n *Node) clear(c *holdfast.Cluster, name string) {
	for end := n.record.Now() + clearMax; n.record.Now() < end; time.Sleep(retryPause) {
		info, err := c.Inspect(Within(callLimit), name)
		if err == nil && len(info.Holders) == 0 {
			return
		}
		for _, h := range info.Holders {
			n.force(c, name, h.Token)
		}
	}
}
