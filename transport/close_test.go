package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

func TestCloseBreaksEveryConnectionAndFreesThePort(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listenOnFixedPort(t, network, opts)
		var ours, theirs []net.Conn
		for _, ends := range [][2]Endpoint{{a, b}, {b, a}} {
			dialed, accepted := connect(t, ends[0], ends[1], KindRaft)
			if ends[0] == b {
				ours, theirs = append(ours, dialed), append(theirs, accepted)
			} else {
				ours, theirs = append(ours, accepted), append(theirs, dialed)
			}
		}
		unaccepted, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, unaccepted, stranger(t, a, b))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range theirs {
			wantRefused(t, c)
		}
		for _, c := range ours {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("a connection of a closed endpoint lives")
			}
		}
		if n := openConns(b); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
		again := listenAt(t, network, b.Addr(), opts)
		echo(again, KindRaft)
		wantEcho(t, a, again, KindRaft)
	})
}

// TLS writes its last word also on a connection whose Write has failed, and waits five seconds for it:
// a client connected to another replica so much later.
func TestCloseAfterAWriteThatFailedWaitsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, opts := NewMemory(1), secretOptions(t, "fleet", "one secret")
		a, b := listen(t, network, opts), listen(t, network, opts)
		c, silent := connect(t, a, b, KindRaft)
		defer silent.Close()
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		block := make([]byte, 1<<16)
		for {
			if _, err := c.Write(block); err != nil {
				break // the other side does not read
			}
		}
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}

// listenOnFixedPort takes a port that the system does not give to outgoing connections, so that it
// is free again after Close.
func listenOnFixedPort(t *testing.T, network Network, opts Options) Endpoint {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(20000)
		e, err := network.Listen(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), opts)
		if err == nil {
			t.Cleanup(func() { e.Close() })
			return e
		}
	}
	t.Fatal("no port is free")
	return nil
}

func TestClosedEndpointAnswersErrClosedToEverything(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		stopBefore := echo(a, KindRaft)
		a.Close()
		stopBefore()
		echo(a, KindRaft)()
		_, dialErr := a.Dial(t.Context(), b.Addr(), KindRaft)
		writeErr := a.WritePacket([]byte("x"), b.Addr())
		for name, err := range map[string]error{"Dial": dialErr, "WritePacket": writeErr} {
			if !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := b.Dial(t.Context(), a.Addr(), KindRaft); err == nil {
			t.Error("a closed endpoint can be dialed")
		}
	})
}

func TestCloseTwiceAndConcurrentlyWhileInUse(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		echo(b, KindRaft)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var users, closers sync.WaitGroup
		started := make(chan struct{}, 8)
		for range 8 {
			users.Go(func() {
				for first := true; ; first = false {
					c, err := a.Dial(ctx, b.Addr(), KindRaft)
					if err == nil {
						c.Write([]byte("x"))
						c.Close()
					}
					b.WritePacket([]byte("x"), a.Addr())
					if first {
						started <- struct{}{}
					}
					if errors.Is(err, ErrClosed) {
						return
					}
				}
			})
		}
		for range 8 {
			<-started
		}
		for range 4 {
			closers.Go(func() { a.Close(); b.Close() })
		}
		closers.Wait()
		users.Wait()
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseEndsADialUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		network.Cut(a.Addr(), b.Addr())
		begin := time.Now()
		result := make(chan error, 1)
		go func() {
			_, err := a.Dial(t.Context(), b.Addr(), KindRaft)
			result <- err
		}()
		synctest.Wait()
		a.Close()
		if err := <-result; !errors.Is(err, ErrClosed) || time.Since(begin) != 0 {
			t.Errorf("dial after %v: %v", time.Since(begin), err)
		}
	})
}

func TestAHandlerThatIsStoppedIsWaitedForAndTakesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		calls := 0
		stop := b.Handle(KindRaft, func(c net.Conn) {
			defer c.Close()
			calls++
			time.Sleep(time.Hour) // virtual
		})
		if _, err := a.Dial(t.Context(), b.Addr(), KindRaft); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took != time.Hour || calls != 1 {
			t.Errorf("stop took %v, after %d calls", took, calls)
		}
		late, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, late)
		if calls != 1 {
			t.Errorf("%d calls, the last after stop", calls)
		}
	})
}

// A part of a node may begin anew before the former one has ended: what ends late takes nothing from it.
func TestALateStopLeavesTheNextHandlerAlone(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		_, stop := arrivals(b, KindRaft)
		echo(b, KindRaft)
		stop()
		wantEcho(t, a, b, KindRaft)
	})
}

func TestTheHandlerOfOneKindStopsAlone(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		echo(b, KindGossip)
		_, accepted := connect(t, a, b, KindRaft)
		_, stop := arrivals(b, KindRaft)
		stop()
		stop()
		late, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err == nil {
			wantRefused(t, late)
		}
		if _, err := accepted.Write([]byte("x")); err != nil {
			t.Errorf("an accepted connection: %v", err)
		}
		wantEcho(t, a, b, KindGossip)
		echo(b, KindRaft)
		wantEcho(t, a, b, KindRaft)
	})
}

func TestCloseGivesBackEveryDescriptor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts /proc/self/fd")
	}
	if !processtest.Alone(t) { // nobody else opens descriptors
		return
	}
	life := func() {
		opts := secretOptions(t, "fleet", "a secret of the fleet")
		a, b := listen(t, TCP(), opts), listen(t, TCP(), opts)
		for range 8 {
			connect(t, a, b, KindRaft)
			stranger(t, a, b).Close()
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
	life() // opens the poller's own descriptors
	before := descriptors(t)
	life()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestCloseOfAnIdleEndpointIsQuick(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		e := listen(t, network, opts)
		begin := time.Now()
		e.Close()
		if took := time.Since(begin); took > patience/3 {
			t.Errorf("Close took %v", took)
		}
	})
}
