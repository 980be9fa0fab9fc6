package membership

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func testValidator() validator { return validator{label: "orders"} }

// of is what a member of the cluster sends.
func of(cluster string, b ...byte) []byte { return append(label(cluster), b...) }

// compound packs parts into a packet.
func compound(parts ...string) []byte {
	b := []byte{kindCompound, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, strings.Join(parts, "")...)
}

func TestPacketsThatMemberlistMustNotSeeAreRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"nothing":               nil,
		"no label":              {kindPing, 0x80},
		"another cluster":       of("order", kindPing, 0x80),
		"half a label":          of("orders")[:4],
		"label alone":           of("orders"),
		"checksum alone":        of("orders", kindChecksum, 1, 2, 3, 4),
		"too large":             of("orders", make([]byte, packetMax)...),
		"push/pull":             of("orders", kindPushPull, 0x80),
		"message of a user":     of("orders", kindUser, 1),
		"packed":                of("orders", 9, 0x80),
		"packed, with checksum": of("orders", kindChecksum, 1, 2, 3, 4, 9, 0x80),
		"sealed":                of("orders", 10, 1),
		"checksums in each":     of("orders", kindChecksum, 1, 2, 3, 4, kindChecksum, 1, 2, 3, 4, 5),
		"unknown kind":          of("orders", 99),
		"compound of nothing":   of("orders", kindCompound),
		"compound in compound":  of("orders", compound(string(compound("\x00\x80")))...),
		"packed in compound":    of("orders", compound("\x04\x80", "\x09\x80")...),
		"compound cut short":    of("orders", compound("\x04\x80", "\x04\x80")[:7]...),
		"compound without size": of("orders", kindCompound, 200, 0, 1),
		"empty part":            of("orders", compound("\x04\x80", "")...),
		"many probes":           of("orders", compound("\x00\x80", "\x01\x80")...),
	} {
		if err := testValidator().packet(b); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	for name, b := range map[string][]byte{
		"ping":           of("orders", kindPing, 0x80),
		"with checksum":  of("orders", kindChecksum, 1, 2, 3, 4, kindAck, 0x80),
		"ping with news": of("orders", compound("\x00\x80", "\x03\x80", "\x04\x80", "\x05\x80")...),
	} {
		if err := testValidator().packet(b); err != nil {
			t.Errorf("%s was refused: %v", name, err)
		}
	}
	if err := (validator{"orders", true}).packet(of("orders", 1, 9, 9, 9)); err != nil {
		t.Errorf("a sealed packet was refused: %v", err)
	}
}

func TestStreamsThatMemberlistMustNotSeeAreRefused(t *testing.T) {
	t.Parallel()
	const nodes, user, length = "\xa5Nodes", "\xacUserStateLen", "\xaaUserMsgLen"
	for name, b := range map[string]string{
		"no label":            "\x00\x80",
		"another cluster":     string(of("others", kindPing)),
		"unknown kind":        string(of("orders", 99)),
		"packed":              string(of("orders", 9)),
		"sealed":              string(of("orders", 10)),
		"an answer":           string(of("orders", kindAck)),
		"an error":            string(of("orders", kindError)),
		"no map":              string(of("orders", kindPushPull, 0x91)),
		"a large map":         string(of("orders", kindPushPull, 0xde, 0, 1)),
		"a strange key":       string(of("orders", kindPushPull, 0x81, 0x01)),
		"a strange value":     string(of("orders", kindPushPull)) + "\x81" + nodes + "\xca\x00\x00\x00\x00",
		"nothing for a value": string(of("orders", kindPushPull)) + "\x81" + nodes + "\xc0",
		"a million members":   string(of("orders", kindPushPull)) + "\x81" + nodes + "\xce\x00\x0f\x42\x40",
		"signed million":      string(of("orders", kindPushPull)) + "\x81" + nodes + "\xd2\x00\x0f\x42\x40",
		"beyond all numbers":  string(of("orders", kindPushPull)) + "\x81" + nodes + "\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
		"fewer than none":     string(of("orders", kindPushPull)) + "\x81" + nodes + "\xd1\xff\xff",
		"said twice":          string(of("orders", kindPushPull)) + "\x82" + nodes + "\x00" + nodes + "\xce\x00\x0f\x42\x40",
		"state of a user":     string(of("orders", kindPushPull)) + "\x82" + nodes + "\x00" + user + "\x01",
		"large message":       string(of("orders", kindUser)) + "\x81" + length + "\xce\x01\x00\x00\x00",
	} {
		if _, _, err := testValidator().head([]byte(b), true); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := string(of("orders", kindPushPull)) + "\x83" + nodes + "\xd1\x01\x00" + user + "\x00\xa4Join\xc3"
	limit, cost, err := testValidator().head([]byte(good+"more"), true)
	if err != nil || limit != len(good)+256*stateBytesMax || cost != 256*stateCost {
		t.Errorf("good state: limit %d, cost %d, %v", limit, cost, err)
	}
	for i := range good {
		if _, _, err := testValidator().head([]byte(good[:i]), true); !errors.Is(err, errShort) {
			t.Errorf("the first %d bytes: %v", i, err)
		}
	}
	for kind, asked := range map[byte]bool{kindPing: true, kindAck: false, kindError: false} {
		if _, _, err := testValidator().head(of("orders", kind), asked); asked && err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
		if _, _, err := testValidator().head([]byte{kind}, asked); !asked && err != nil {
			t.Errorf("answer of kind %d: %v", kind, err)
		}
	}
}

// TestForgedHeadersCostNoMemory would allocate ten gigabytes.
func TestForgedHeadersCostNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		stranger, err := f.network.Listen(t.Context(), "10.0.0.66:1", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			conn, err := stranger.Dial(t.Context(), "10.0.0.1:7643", transport.KindGossip)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(append(of("orders", kindPushPull), "\x81\xa5Nodes\xce\x00\x0f\x42\x40"...))
			_, _ = io.ReadAll(conn)
			_ = conn.Close()
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 { // other tests run beside this one
			t.Errorf("%d bytes allocated", n)
		}
		if n := a.carrier.refused.Load(); n != 100 {
			t.Errorf("%d streams counted as refused", n)
		}
		if n := a.log.Count("level=WARN"); n == 0 || n > logBurst+5 {
			t.Errorf("%d lines about 100 refusals", n)
		}
	})
}

func TestAnswersOfFalseMembersAreVettedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		liar, err := f.network.Listen(t.Context(), "10.0.0.66:7643", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer liar.Close()
		liar.Handle(transport.KindGossip, func(conn net.Conn) {
			// The liar hears the joiner out: closing first would race with the joiner's own state.
			_, _ = conn.Write([]byte("\x06\x81\xa5Nodes\xce\x00\x0f\x42\x40"))
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
		a := f.start("a", 1, "10.0.0.1:7643", nil, "10.0.0.66")
		<-a.Tried()
		if err := a.JoinError(); err == nil || !strings.Contains(err.Error(), "1000000 members") {
			t.Errorf("joining a liar: %v", err)
		}
	})
}

// Many streams that bring what they announced are bounded together, and what they hold is given
// back.
func TestLargeStatesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		for host := range 4 {
			stranger, err := f.network.Listen(t.Context(), "10.0.1."+string(rune('1'+host))+":1", transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			for range hostStreamsMax {
				conn, err := stranger.Dial(t.Context(), "10.0.0.1:7643", transport.KindGossip)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					// A state of 8192 members, the first of which has a name without end. It stays
					// unfinished.
					_, _ = conn.Write(append(of("orders", kindPushPull), "\x81\xa5Nodes\xcd\x20\x00\x81\xa4Name\xdb\x00\x7f\xff\xff"...))
					_, _ = conn.Write(make([]byte, 128<<10))
				}()
			}
		}
		synctest.Wait()
		held := func() int {
			a.carrier.mu.Lock()
			defer a.carrier.mu.Unlock()
			return a.carrier.bytes
		}
		if n := held(); n > bytesMax {
			t.Errorf("streams hold %d bytes", n)
		}
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1")
		together(t, 5*time.Second, a, b)
		time.Sleep(2 * streamLimit)
		if n := held(); n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
}

func TestMembersWithTheLargestMetaExchangeTheirState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		full := func(c *Config) {
			c.Meta.Name, c.Meta.Zone = strings.Repeat("n", NameMax), strings.Repeat("z", ZoneMax)
			c.Meta.ClusterID, c.Meta.Version = strings.Repeat("c", ClusterIDMax), strings.Repeat("v", VersionMax)
			c.Meta.Incarnation, c.Meta.Replica, c.Meta.Applied, c.Meta.Level = 1<<63, 1<<63, 1<<63, 1<<63
		}
		first := f.start(strings.Repeat("a", NodeMax), 1<<63, "10.0.0.1:7643", full)
		members := []*peer{first}
		for _, n := range []string{"b", "c", "d"} {
			members = append(members, f.start(strings.Repeat(n, NodeMax), 1<<63, "10.0.0."+n[:0]+string(rune('2'+n[0]-'b'))+":7643", full, "10.0.0.1"))
		}
		together(t, 20*time.Second, members...)
		time.Sleep(time.Minute) // of push/pulls
		for _, m := range members {
			if n := m.carrier.refused.Load(); n > 0 {
				t.Errorf("%d streams or packets of honest members were refused", n)
			}
		}
		if err := first.Send(context.Background(), members[1].self.Node, bytes.Repeat([]byte("x"), MessageMax)); err != nil {
			t.Error(err)
		}
		<-members[1].messages
	})
}

func FuzzPacketsAndHeadersFromStrangersNeverPanic(f *testing.F) {
	f.Add(of("orders", kindPing, 0x80), true)
	f.Add(of("orders", compound("\x00\x80", "\x03\x80")...), true)
	f.Add(append(of("orders", kindPushPull), "\x83\xa5Nodes\xd1\x01\x00\xacUserStateLen\x00\xa4Join\xc3"...), true)
	f.Add([]byte("\x06\x81\xa5Nodes\x03"), false)
	f.Fuzz(func(t *testing.T, b []byte, asked bool) {
		_ = testValidator().packet(b)
		limit, cost, err := testValidator().head(b, asked)
		if err == nil && (limit > streamBytesMax+headMax+len(b) || cost > statesMax*stateCost) {
			t.Errorf("limit %d, cost %d", limit, cost)
		}
	})
}
