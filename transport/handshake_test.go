package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/testlog"
)

// mount is where a user's function finds its certificate. It can hang.
type mount struct {
	certificate tls.Certificate
	hangs       atomic.Bool
	freed       chan struct{} // closed when it hangs no more
	inside      atomic.Int64  // calls that have not returned
	most        atomic.Int64
}

// mounted is a configuration whose certificate is on the mount, for both roles.
func mounted(t *testing.T) (*mount, *tls.Config) {
	t.Helper()
	own := ownAuthority(t)
	m := &mount{certificate: own.Certificates[0], freed: make(chan struct{})}
	own.Certificates, own.ServerName = nil, "127.0.0.1"
	own.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.read() }
	own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.read() }
	return m, own
}

func (m *mount) read() (*tls.Certificate, error) {
	m.most.Store(max(m.most.Load(), m.inside.Add(1)))
	defer m.inside.Add(-1)
	if m.hangs.Load() {
		<-m.freed
	}
	return &m.certificate, nil
}

func (m *mount) free() {
	m.hangs.Store(false)
	close(m.freed)
}

// Found by reading, 2026-11-29: GetCertificate on a mount that hung kept the goroutine of every connection that
// a stranger had made and closed, without a bound, and Close waited for them.
func TestAHungFunctionOfTLSKeepsABoundedNumberOfGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const strangers = 8 // at a time
		var log testlog.Lines
		m, own := mounted(t)
		network := NewMemory(1)
		a := listen(t, network, Options{TLS: ownAuthority(t)})
		opts := Options{TLS: own, StrangersMax: strangers, Logger: log.Logger(slog.LevelInfo)}
		b := listen(t, network, opts)
		echo(b, KindRaft)
		m.hangs.Store(true)
		for range 6 {
			var flood sync.WaitGroup
			for range 2 * strangers { // half of them evict the others
				flood.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // virtual
					defer cancel()
					a.Dial(ctx, b.Addr(), KindRaft)
				})
			}
			flood.Wait()
		}
		if n := m.most.Load(); n != strangers {
			t.Errorf("%d goroutines of strangers were in the function at a time, want %d", n, strangers)
		}
		time.Sleep(time.Minute) // virtual
		if n := log.Count("gave up a handshake", "Config.TLS"); n != 1 {
			t.Errorf("%d lines in a period tell the operator:\n%s", n, log.String())
		}
		if n := openConns(b) + handshakingSize(b); n > 0 {
			t.Errorf("%d connections are still counted", n)
		}
		m.free()
		synctest.Wait()
		c := listen(t, network, Options{TLS: own})
		wantEcho(t, c, b, KindRaft) // the places are free again
	})
}

func TestCloseWaitsForNoHungFunctionOfTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, own := mounted(t)
		network := NewMemory(1)
		a, b := listen(t, network, Options{TLS: own}), listen(t, network, Options{TLS: own})
		m.hangs.Store(true)
		dialed := make(chan error, 1)
		go func() {
			_, err := a.Dial(t.Context(), b.Addr(), KindRaft)
			dialed <- err
		}()
		synctest.Wait()
		for _, e := range []Endpoint{b, a} {
			began := time.Now()
			e.Close()
			if took := time.Since(began); took > handshakeGrace {
				t.Errorf("Close took %v", took)
			}
		}
		<-dialed
		m.free()
	})
}

// Dial with a context of a second had not returned after fifteen.
func TestDialWaitsForNoHungFunctionOfTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, own := mounted(t)
		good := own.Clone()
		good.GetCertificate, good.GetClientCertificate, good.Certificates = nil, nil, []tls.Certificate{m.certificate}
		network := NewMemory(1)
		a, b := listen(t, network, Options{TLS: own}), listen(t, network, Options{TLS: good})
		const places = 8
		a.(*endpoint).introducing = make(handshakes, places)
		echo(b, KindRaft)
		m.hangs.Store(true)
		var dials sync.WaitGroup
		for range 2 * places {
			dials.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := a.Dial(ctx, b.Addr(), KindRaft)
				if took := time.Since(began); took > time.Second+handshakeGrace {
					t.Errorf("Dial took %v", took)
				}
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "function of Config.TLS") {
					t.Errorf("Dial says %v", err)
				}
			})
		}
		dials.Wait()
		if n := m.most.Load(); n != places {
			t.Errorf("%d goroutines were in the function at a time, want %d", n, places)
		}
		m.free()
		synctest.Wait()
		wantEcho(t, a, b, KindRaft)
	})
}
