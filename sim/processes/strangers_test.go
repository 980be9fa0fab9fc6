package processes_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// The tests of this file put a fleet on real sockets among strangers that reach a node's
// port.

func TestStrangersNeitherEnterNorStallNorCrashAFleetWithSecrets(t *testing.T) {
	t.Parallel()
	fleetAmongStrangers(t, true, func(cfg *holdfast.Config) { cfg.Secrets = []string{"a secret of this fleet"} })
}

func TestStrangersNeitherEnterNorStallNorCrashAFleetWithCertificates(t *testing.T) {
	t.Parallel()
	config := testkit.Authority(t)
	fleetAmongStrangers(t, true, func(cfg *holdfast.Config) { cfg.TLS = config })
}

func TestStrangersNeitherStallNorCrashAFleetWithoutSecrets(t *testing.T) {
	t.Parallel()
	fleetAmongStrangers(t, false, func(*holdfast.Config) {})
}

func fleetAmongStrangers(t *testing.T, secured bool, change func(*holdfast.Config)) {
	began := time.Now()
	nodes := outposts(t, 3, change)
	honest := testkit.NewLoad(t, 5*time.Millisecond, nodes[0].Cluster, nodes[1].Cluster, nodes[2].Cluster)
	var attackers sync.WaitGroup
	for i, o := range nodes {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		s := newStranger(t, o.real())
		for _, attack := range []func(){
			func() { s.packets(r) },
			func() { s.halfOpen(1000) },
			func() { s.rubbish(rand.New(rand.NewPCG(2, uint64(i)))) },
			func() { s.slow() },
			func() { s.oversized() },
		} {
			attackers.Go(attack)
		}
	}
	intruders(t, nodes, secured)
	attackers.Wait()
	for i, o := range nodes {
		attackers.Go(func() {
			s := newStranger(t, o.real())
			s.replay(o, rand.New(rand.NewPCG(3, uint64(i))))
			if !secured {
				s.forge(o)
			}
		})
	}
	attackers.Wait()
	honest.End()
	for i, o := range nodes {
		if err := o.Status().Failure; err != nil {
			t.Errorf("node %d failed: %v", i, err)
		}
		if m := o.Members(); len(m) != 3 {
			t.Errorf("node %d sees %d members: %+v", i, len(m), m)
		}
		most := 60 + 2*int(time.Since(began)/time.Second) // each kind of refusal is told again after a while
		lines, told := o.log.Count()-o.log.Count("engine="), o.log.Count("refused")
		if lines > most || told == 0 {
			t.Errorf("node %d wrote %d lines, %d of them about refusals:\n%s", i, lines, told, o.log)
		}
		testkit.Serves(t, testkit.Within(t, 30*time.Second), o.Cluster)
	}
}

func TestAFleetChangesItsSecretNodeByNodeWhileItServes(t *testing.T) {
	t.Parallel()
	const old, next = "the secret of last year", "the secret of this year"
	secrets := []string{old}
	config := func(_ int, cfg *holdfast.Config) { cfg.Secrets = slices.Clone(secrets) }
	sim.Run(t, sim.Options{Nodes: 3, Config: config}, func(s *sim.Sim) {
		loads := make([]*testkit.Load, 3)
		for i, n := range s.Nodes() {
			loads[i] = testkit.NewLoad(t, 50*time.Millisecond, n.Cluster())
		}
		time.Sleep(time.Second) // virtual
		// All understand the new secret before any uses it, and none uses the old one when it goes.
		for _, secrets = range [][]string{{old, next}, {next, old}, {next}} {
			for i, n := range s.Nodes() {
				loads[i].End()
				n.Close()
				n.Open()
				n.Ready()
				loads[i] = testkit.NewLoad(t, 50*time.Millisecond, n.Cluster())
				time.Sleep(300 * time.Millisecond) // virtual
			}
		}
		for i, x := range loads {
			if worst := x.End(); worst > 5*time.Second {
				t.Errorf("node %d waited %v for a lock", i, worst)
			}
		}
		secrets = []string{old}
		late := s.Node(0)
		late.Close()
		c := late.Open()
		if err := c.Ready(testkit.Until(5 * time.Second)); err == nil || c.Status().Ready {
			t.Error("a node with the old secret came in")
		}
	})
}

// intruders are nodes that would join without being of the fleet.
func intruders(t *testing.T, nodes []*outpost, secured bool) {
	t.Helper()
	kinds := map[string]func(*holdfast.Config){
		"of another cluster": func(cfg *holdfast.Config) { cfg.Cluster = "other" },
		"with a wrong secret": func(cfg *holdfast.Config) {
			cfg.Secrets = []string{"a secret of another fleet"}
		},
	}
	if secured {
		kinds["without a secret"] = func(*holdfast.Config) {}
		kinds["of another cluster, with the secret"] = func(cfg *holdfast.Config) {
			cfg.Cluster, cfg.Secrets = "other", []string{"a secret of this fleet"}
		}
	}
	var trying sync.WaitGroup
	defer trying.Wait()
	for what, change := range kinds {
		cfg := holdfast.Config{Bootstrap: -1, Logger: testkit.Quiet()}
		for _, o := range nodes {
			cfg.Join = append(cfg.Join, o.real())
		}
		change(&cfg)
		trying.Go(func() {
			c, err := holdfast.Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if err := c.Ready(testkit.Until(500 * time.Millisecond)); err == nil {
				t.Errorf("a node %s is ready", what)
			}
			if m := c.Members(); len(m) != 1 {
				t.Errorf("a node %s sees %d members", what, len(m))
			}
		})
	}
}

// stranger is whoever reaches a node's port and means no good.
type stranger struct {
	t    testing.TB
	addr string
}

func newStranger(t testing.TB, addr string) *stranger { return &stranger{t, addr} }

// dial connects from an address of its own where the system has one; the test ends the connection.
func (s *stranger) dial() net.Conn {
	dialer := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
	c, err := dialer.Dial("tcp", s.addr)
	if err != nil {
		dialer.LocalAddr = nil
		c, err = dialer.Dial("tcp", s.addr)
	}
	if err != nil {
		s.t.Errorf("the port does not answer a stranger: %v", err)
		return nil
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// say sends b and waits for the end of the connection; whether it is ended early or late is no
// matter.
func (s *stranger) say(b []byte) {
	c := s.dial()
	if c == nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(100 * time.Millisecond))
	c.Write(b)
	io.Copy(io.Discard, c)
}

// packets sends datagrams of all sizes, with and without what looks like gossip.
func (s *stranger) packets(r *rand.Rand) {
	c, err := net.Dial("udp", s.addr)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer c.Close()
	label := []byte("\xf4\x08holdfast")
	for i := range 1000 {
		b := noise(r, r.IntN(300))
		switch i % 4 {
		case 0:
			b = append(slices.Clone(label), b...)
		case 1: // a compound of what asks for answers
			b = append(slices.Clone(label), append([]byte{7, 200}, b...)...)
		case 2:
			b = append(slices.Clone(label), append([]byte{byte(r.IntN(14)), 0x80 | byte(r.IntN(16))}, b...)...)
		}
		if i%50 == 0 {
			b = noise(r, 65507)
		}
		c.Write(b)
	}
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// halfOpen leaves n connections open that never say who they are.
func (s *stranger) halfOpen(n int) {
	begins := []string{"", "H", "HF\x01", "\x16\x03\x01", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}
	for i := range n {
		if c := s.dial(); c != nil {
			io.WriteString(c, begins[i%len(begins)])
		}
	}
}

// rubbish sends what no protocol is, also after a good preface.
func (s *stranger) rubbish(r *rand.Rand) {
	for i := range 20 {
		b := noise(r, 1+r.IntN(3000))
		if i%2 == 0 {
			b = append([]byte{'H', 'F', 1, byte(i % 5)}, b...)
		}
		s.say(b)
	}
}

// slow sends a byte now and then.
func (s *stranger) slow() {
	for _, b := range []string{"HF\x01\x01B\x00\x00\x00\x00\x10\x00\x00", "HF\x01\x02\xf4\x08hold", "\x16\x03\x01\x02\x00"} {
		c := s.dial()
		if c == nil {
			return
		}
		for i := range b {
			if _, err := c.Write([]byte{b[i]}); err != nil {
				break
			}
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			c.Read(make([]byte, 1)) // nothing: the pause between two bytes
		}
	}
}

// oversized announces more than any member would send.
func (s *stranger) oversized() {
	for range 4 {
		for _, kind := range []byte{'B', 'C', 'G'} {
			s.say(append([]byte(raftPreface), frame(kind, nil, 1<<32-1)...))
			s.say(append([]byte(raftPreface), frame(kind, bytes.Repeat([]byte{0x0a}, 1<<20), 80<<20)...))
		}
		s.say([]byte("HF\x01\x02\xf4\x08holdfast\x06\x81\xa5Nodes\xce\x00\x0f\x42\x40"))
		s.say([]byte("HF\x01\x02\xf4\x08holdfast\x08\x81\xaaUserMsgLen\xce\x01\x00\x00\x00"))
	}
}

const raftPreface = "HF\x01\x01"

// frame is one for Raft, which claims to have size bytes.
func frame(kind byte, payload []byte, size uint32) []byte {
	b := []byte{kind, 0, 0, 0}
	b = binary.LittleEndian.AppendUint32(b, size)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, payload...)
}

// replay sends again what members sent, whole and cut off.
func (s *stranger) replay(recorded *outpost, r *rand.Rand) {
	streams, packets := recorded.seen()
	if len(streams) == 0 { // packets there are none where gossip goes over streams alone
		s.t.Error("nothing was recorded")
	}
	for _, b := range streams[:min(len(streams), 8)] {
		s.say(b)
		s.say(b[:r.IntN(len(b)+1)])
	}
	c, err := net.Dial("udp", s.addr)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer c.Close()
	for _, b := range packets {
		c.Write(b)
		c.Write(b[:r.IntN(len(b)+1)])
	}
}

// forge sends good frames of members with one field of a message made worse. All have to be
// refused: the connection ends.
func (s *stranger) forge(recorded *outpost) {
	streams, _ := recorded.seen()
	before, batch, ok := firstBatch(streams)
	if !ok {
		s.t.Error("no frame was recorded")
		return
	}
	for _, worse := range forgeries(s.t, batch) {
		c := s.dial()
		if c == nil {
			return
		}
		c.SetDeadline(time.Now().Add(30 * time.Second))
		c.Write(append(slices.Clone(before), frame('B', worse.batch, uint32(len(worse.batch)))...))
		var timeout net.Error
		if n, err := io.Copy(io.Discard, c); n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
			s.t.Errorf("%s was let in: %d bytes of answer, %v", worse.what, n, err)
		}
	}
}

// firstBatch finds a whole frame of messages, and what its sender said before it.
func firstBatch(streams [][]byte) (before, batch []byte, ok bool) {
	for _, b := range streams {
		if !bytes.HasPrefix(b, []byte(raftPreface)) {
			continue
		}
		for at := len(raftPreface); at+12 <= len(b); {
			end := at + 12 + int(binary.LittleEndian.Uint32(b[at+4:]))
			if b[at] == 'B' && end <= len(b) {
				return b[:at], b[at+12 : end], true
			}
			at = end
		}
	}
	return nil, nil, false
}

type forgery struct {
	what  string
	batch []byte
}

// forgeries are the batch with one field of its first message changed, or of the batch. Later
// fields overrule earlier ones on the wire.
func forgeries(t testing.TB, batch []byte) (list []forgery) {
	t.Helper()
	number, kind, n := protowire.ConsumeTag(batch)
	message, size := protowire.ConsumeBytes(batch[max(n, 0):])
	if number != 1 || kind != protowire.BytesType || size < 0 {
		t.Fatal("no batch of messages was recorded")
	}
	rest := batch[n+size:]
	add := func(what string, field protowire.Number, value uint64) {
		m := protowire.AppendVarint(protowire.AppendTag(slices.Clone(message), field, protowire.VarintType), value)
		b := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), m)
		list = append(list, forgery{fmt.Sprint(what, " ", value), append(b, rest...)})
	}
	const fieldType, fieldTo, fieldFrom, fieldShard, fieldTerm, fieldCommit = 1, 2, 3, 4, 5, 8
	// Ticks, elections and other messages that a replica sends only to itself, and numbers beyond
	// all.
	for _, local := range []uint64{0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 16, 21, 28, 29, 99, 1 << 31, 1<<64 - 1} {
		add("type", fieldType, local)
	}
	add("to", fieldTo, 0)
	add("from", fieldFrom, 7)
	add("shard", fieldShard, 2)
	add("term", fieldTerm, 1<<63)
	add("commit", fieldCommit, 1<<64-1)
	whole := func(what string, field protowire.Number, value uint64) {
		b := protowire.AppendVarint(protowire.AppendTag(slices.Clone(batch), field, protowire.VarintType), value)
		list = append(list, forgery{what, b})
	}
	whole("deployment", 2, 1)
	whole("version", 4, 1)
	list = append(list, forgery{"cut short", batch[:len(batch)-1]}, forgery{"nothing but a message", message})
	return list
}
