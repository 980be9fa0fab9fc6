package membership

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	membersMax      = 4096 // alive or suspect at once
	newcomersMax    = 4096 // joins in a row
	newcomersPerSec = 4    // after those
)

// delegate has memberlist's callbacks. Memberlist may hold its one lock: every method returns at
// once and none calls memberlist.
type delegate struct {
	table *table
	log   *logFilter
	inbox func(envelope)

	mu        sync.Mutex
	meta      Meta
	cloned    bool // has been reported
	joinLimit joinLimit
	deaf      map[string]bool // members that packets do not reach, by their names in memberlist
}

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
	_ memberlist.PingDelegate  = (*delegate)(nil)
)

func (d *delegate) setMeta(m Meta) {
	d.mu.Lock()
	d.meta = m
	d.mu.Unlock()
}

func (d *delegate) getMeta() Meta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta
}

func (d *delegate) NodeMeta(int) []byte { return d.getMeta().encode() }

func (d *delegate) NotifyMsg(b []byte) {
	e, err := decodeEnvelope(b)
	if err != nil {
		d.log.drop("malformed message dropped")
		return
	}
	if e.to != d.table.self.Node {
		return // for a node that had this address before
	}
	if e.meta == nil {
		d.inbox(e)
	} else if meta, err := decodeMeta(e.meta); err == nil && meta.Node == e.from {
		d.table.announced(meta)
	}
}

func (d *delegate) GetBroadcasts(int, int) [][]byte        { return nil }
func (d *delegate) LocalState(bool) []byte                 { return nil }
func (d *delegate) MergeRemoteState(buf []byte, join bool) {}

// NotifyAlive refuses members that cannot be nodes of this fleet.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if (len(n.Addr) != 4 && len(n.Addr) != 16) || n.Port == 0 {
		return errors.New("its address is malformed")
	}
	if !compatible(n) {
		return errors.New("it speaks another protocol")
	}
	meta, err := decodeMeta(n.Meta)
	if err != nil {
		return err
	}
	if n.Name != meta.listName() {
		return fmt.Errorf("its meta is of %s", meta.listName())
	}
	d.mu.Lock()
	admitted := d.joinLimit.admits(n.Name, time.Now())
	d.mu.Unlock()
	if !admitted {
		return errors.New("there are too many members")
	}
	if self := d.table.self; meta.Node == self.Node && meta.Incarnation > self.Incarnation {
		d.reportClone(n.Address(), meta.Incarnation)
	}
	return nil
}

// reportClone reports, once, a second process with this node's identity: the data directory was
// copied, or this process was suspended and the node has been restarted.
func (d *delegate) reportClone(addr string, incarnation uint64) {
	d.mu.Lock()
	first := !d.cloned
	d.cloned = true
	d.mu.Unlock()
	if first {
		d.log.logger.Error("gossip: another process has this node's identity and a newer incarnation",
			"addr", addr, "incarnation", incarnation)
	}
}

// compatible refuses a member that supports other protocol versions only: memberlist would exchange
// no state with any member beside it.
func compatible(n *memberlist.Node) bool {
	const protocol, own = memberlist.ProtocolVersion2Compatible, 0
	return n.PMin <= protocol && protocol <= n.PMax && n.PCur == protocol &&
		n.DMin <= own && own <= n.DMax && n.DCur == own
}

func (d *delegate) NotifyJoin(n *memberlist.Node) {
	d.mu.Lock()
	d.joinLimit.join(n.Name, time.Now())
	d.mu.Unlock()
	d.notifyAlive(n)
}

func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.notifyAlive(n) }

func (d *delegate) notifyAlive(n *memberlist.Node) {
	if meta, err := decodeMeta(n.Meta); err == nil {
		d.table.alive(meta, n.Address(), time.Now())
	}
}

func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.mu.Lock()
	d.joinLimit.leave(n.Name)
	delete(d.deaf, n.Name)
	d.mu.Unlock()
	d.named(n.Name, d.table.gone)
}

func (d *delegate) AckPayload() []byte { return nil }

// unheard notes that a member answered over TCP but not over UDP, and reports whether it did so
// before.
func (d *delegate) unheard(name string) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf == nil {
		d.deaf = make(map[string]bool)
	}
	again = d.deaf[name]
	if len(d.deaf) < membersMax {
		d.deaf[name] = true
	}
	return again
}

// deafest are a few members that packets do not reach.
func (d *delegate) deafest(few int) (nodes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.deaf { // random order
		node, incarnation, _ := splitName(name)
		if m, ok := d.table.get(node); !ok || !m.Here() || m.Incarnation != incarnation {
			delete(d.deaf, name) // noted after NotifyLeave
		} else if len(nodes) < few {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (d *delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	d.mu.Lock()
	delete(d.deaf, n.Name)
	d.mu.Unlock()
	d.named(n.Name, d.table.answered)
}

func (d *delegate) named(name string, note func(node string, incarnation uint64, now time.Time)) {
	if node, incarnation, ok := splitName(name); ok {
		note(node, incarnation, time.Now())
	}
}

// joinLimit bounds the members that memberlist knows: without keys a stranger can invent members.
// Memberlist remembers dead members for a while, so the rate of joins is bounded as well. The zero
// value is ready.
type joinLimit struct {
	here map[string]struct{} // by their names in memberlist
	came float64             // recent joins, less newcomersPerSec
	last time.Time
}

// admits reports whether there is room for a member.
func (l *joinLimit) admits(name string, now time.Time) bool {
	if _, ok := l.here[name]; ok {
		return true
	}
	l.forget(now)
	return len(l.here) < membersMax && l.came < newcomersMax
}

func (l *joinLimit) join(name string, now time.Time) {
	if l.here == nil {
		l.here = make(map[string]struct{})
	}
	l.forget(now)
	l.came++
	l.here[name] = struct{}{}
}

func (l *joinLimit) leave(name string) { delete(l.here, name) }

func (l *joinLimit) forget(now time.Time) {
	l.came = max(0, l.came-now.Sub(l.last).Seconds()*newcomersPerSec)
	l.last = now
}
