package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// storm is what arrives of two hundred numbered packets on a bad link: number and time of each.
func storm(t *testing.T, seed uint64, f Faults) (log string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(seed)
		a := listenAt(t, network, "10.0.0.1:0", Options{})
		b := listenAt(t, network, "10.0.0.2:0", Options{})
		network.SetFaults("10.0.0.1", "10.0.0.2", f)
		begin := time.Now()
		b.Receive(func(p Packet) { log += fmt.Sprintf("%d@%v ", p.Data[0], p.At.Sub(begin)) })
		for i := range 200 {
			if err := a.WritePacket([]byte{byte(i)}, b.Addr()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // virtual
		}
		time.Sleep(time.Minute)
		b.Close()
	})
	return log
}

func TestSameSeedMakesTheSameDecisions(t *testing.T) {
	t.Parallel()
	bad := Faults{Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 3 * time.Millisecond, Jitter: 5 * time.Millisecond}
	for seed := range uint64(5) {
		first := storm(t, seed, bad)
		if again := storm(t, seed, bad); again != first {
			t.Errorf("seed %d, first:\n%s\nagain:\n%s", seed, first, again)
		}
		if first == storm(t, seed+1, bad) {
			t.Errorf("seeds %d and %d decide alike", seed, seed+1)
		}
	}
}

func TestTrafficOfOtherLinksAndStreamsDoesNotChangeALinksDecisions(t *testing.T) {
	t.Parallel()
	fates := func(noise bool) (log string) {
		m, f := NewMemory(7), Faults{Drop: 0.3, Duplicate: 0.3, Jitter: time.Second, Reset: 0.5}
		a, b, c := placeOf("a", 1), placeOf("b", 1), placeOf("c", 1)
		for range 100 {
			log += fmt.Sprint(m.link(a, b).packet(f))
			if noise {
				m.link(a, c).packet(f)
				m.link(b, a).packet(f)
				m.link(a, b).stream(f)
			}
		}
		return log
	}
	if fates(false) != fates(true) {
		t.Error("they do")
	}
}

func TestEachFaultDoesWhatItsNameSays(t *testing.T) {
	t.Parallel()
	perfect := strings.Fields(storm(t, 1, Faults{Jitter: 1})) // a nanosecond: the slow path without an effect
	if len(perfect) != 200 {
		t.Fatalf("%d packets of 200 arrive without a fault", len(perfect))
	}
	if n := len(strings.Fields(storm(t, 1, Faults{Drop: 0.3}))); n < 110 || n > 170 {
		t.Errorf("Drop 0.3 leaves %d of 200", n)
	}
	if n := len(strings.Fields(storm(t, 1, Faults{Drop: 1}))); n != 0 {
		t.Errorf("Drop 1 leaves %d", n)
	}
	if n := len(strings.Fields(storm(t, 1, Faults{Cut: true}))); n != 0 {
		t.Errorf("Cut leaves %d", n)
	}
	if n := len(strings.Fields(storm(t, 1, Faults{Duplicate: 0.3}))); n < 230 || n > 290 {
		t.Errorf("Duplicate 0.3 makes %d of 200", n)
	}
	if first := strings.Fields(storm(t, 1, Faults{Delay: 70 * time.Millisecond}))[0]; first != "0@70ms" {
		t.Errorf("Delay 70ms: the first packet arrives as %s", first)
	}
	order := numbers(storm(t, 1, Faults{Reorder: 0.2}))
	if slices.IsSorted(order) || len(order) != 200 {
		t.Error("Reorder leaves the order, or loses packets")
	}
	if !slices.IsSorted(numbers(storm(t, 1, Faults{Delay: time.Second}))) {
		t.Error("a mere delay changes the order")
	}
}

func TestPacketsOfOneInstantArriveInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		network.SetFaults("*", "*", Faults{Delay: time.Second})
		packets, _ := packetsOf(b)
		for i := range 100 {
			a.WritePacket([]byte{byte(i)}, b.Addr())
		}
		for i := range 100 {
			if p := <-packets; p.Data[0] != byte(i) {
				t.Fatalf("packet %d arrives as number %d", p.Data[0], i)
			}
		}
	})
}

func numbers(log string) (all []int) {
	for field := range strings.FieldsSeq(log) {
		var n int
		fmt.Sscanf(field, "%d@", &n)
		all = append(all, n)
	}
	return all
}

func TestStreamsStayOrderedAndIntactOnABadLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		network.SetFaults("*", "*", Faults{Drop: 0.5, Duplicate: 0.5, Reorder: 0.5, Delay: time.Millisecond, Jitter: time.Second})
		dialed, accepted := connect(t, a, b, KindRaft)
		var sent bytes.Buffer
		for i := range 300 {
			fmt.Fprintf(&sent, "line %d\n", i)
		}
		go func() {
			for line := range bytes.Lines(sent.Bytes()) {
				dialed.Write(line)
				time.Sleep(10 * time.Millisecond) // virtual
			}
			dialed.Close()
		}()
		got, err := io.ReadAll(accepted)
		if err != nil || !bytes.Equal(got, sent.Bytes()) {
			t.Errorf("%v; got %d of %d bytes", err, len(got), sent.Len())
		}
	})
}

func TestDelayIsOneWayForBytesAndTwoWaysForDials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		network.SetFaults(a.Addr(), b.Addr(), Faults{Delay: 30 * time.Millisecond})
		network.SetFaults(b.Addr(), a.Addr(), Faults{Delay: 5 * time.Millisecond})
		begin := time.Now()
		conns, _ := arrivals(b, KindRaft)
		dialed, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if took := time.Since(begin); err != nil || took != 35*time.Millisecond {
			t.Errorf("the dial took %v, %v", took, err)
		}
		accepted := <-conns
		if took := time.Since(begin); took != 65*time.Millisecond {
			t.Errorf("the preface took until %v", took)
		}
		begin = time.Now()
		accepted.Write([]byte("x"))
		dialed.Read(make([]byte, 1))
		if took := time.Since(begin); took != 5*time.Millisecond {
			t.Errorf("the way back took %v", took)
		}
	})
}

func TestCutHoldsAStreamInOneDirectionUntilHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		dialed, accepted := connect(t, a, b, KindRaft)
		network.Cut(a.Addr(), b.Addr())
		if _, err := dialed.Write([]byte("held")); err != nil {
			t.Fatal(err)
		}
		accepted.SetReadDeadline(time.Now().Add(time.Hour))
		if n, err := accepted.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read across a cut: %d bytes, %v", n, err)
		}
		accepted.SetReadDeadline(time.Time{})
		if _, err := accepted.Write([]byte("the other way")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(dialed, make([]byte, 13)); err != nil {
			t.Errorf("the direction that is not cut: %v", err)
		}
		a.Close() // a crash: nobody hears of it yet
		time.AfterFunc(time.Minute, func() { network.Heal() })
		begin := time.Now()
		got, err := io.ReadAll(accepted)
		if took := time.Since(begin); string(got) != "held" || err != nil || took != time.Minute {
			t.Errorf("after %v: %q, %v", took, got, err)
		}
	})
}

func TestStalledStreamTakesBoundedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		dialed, _ := connect(t, a, b, KindRaft)
		network.Partition([]string{a.Addr()}, []string{b.Addr()})
		dialed.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := dialed.Write(make([]byte, 100*pipeMax))
		if n > pipeMax || !isTimeout(err) {
			t.Errorf("%d bytes are kept, %v", n, err)
		}
	})
}

func TestDialWaitsWhileEitherDirectionIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		for _, way := range [][2]string{{a.Addr(), b.Addr()}, {b.Addr(), a.Addr()}} {
			network.Cut(way[0], way[1])
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			begin := time.Now()
			_, err := a.Dial(ctx, b.Addr(), KindRaft)
			cancel()
			if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			if _, err := a.Dial(t.Context(), b.Addr(), KindRaft); time.Since(begin) != 13*time.Second || err == nil {
				t.Errorf("a dial without a deadline ended after %v: %v", time.Since(begin), err)
			}
			time.AfterFunc(time.Second, func() { network.Heal(way[0]) })
			if _, err := a.Dial(t.Context(), b.Addr(), KindRaft); err != nil {
				t.Errorf("a dial that outlasts the cut: %v", err)
			}
		}
	})
}

func TestBreakAndResetEndStreamsOnBothSides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(3)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		dialed, accepted := connect(t, a, b, KindRaft)
		spared, _ := connect(t, b, b, KindGossip)
		network.Break(b.Addr(), a.Addr())
		for _, c := range []net.Conn{dialed, accepted} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("after Break: %v", err)
			}
		}
		if _, err := spared.Write([]byte("x")); err != nil {
			t.Errorf("another stream: %v", err)
		}
		dialed, accepted = connect(t, a, b, KindRaft)
		network.SetFaults("*", "*", Faults{Reset: 1})
		if _, err := dialed.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write under Reset 1: %v", err)
		}
		if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read of the other side: %v", err)
		}
	})
}
