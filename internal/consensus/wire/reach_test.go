package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func TestAReplicaOutOfReachIsOneLineAndItsReturnAnother(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &reach{log: slog.New(slog.NewTextHandler(&log, nil))}
	broken, now := errors.New("broken"), time.Unix(1000, 0)
	r.heard("a:1", now)
	r.failed("a:1", broken, now)
	r.heard("a:1", now.Add(time.Second)) // it was only started anew
	r.failed("a:1", broken, now.Add(time.Minute))
	if log.Len() > 0 {
		t.Errorf("a short outage: %s", log.String())
	}
	for i := range 100 {
		r.failed("a:1", broken, now.Add(time.Minute+time.Duration(i)*time.Second))
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "WARN") || !strings.Contains(text, "a:1") {
		t.Errorf("a long one: %s", text)
	}
	r.heard("a:1", now.Add(time.Hour))
	r.heard("a:1", now.Add(time.Hour))
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "again") {
		t.Errorf("its end: %s", text)
	}
	for i := range 1000 {
		r.failed(fmt.Sprint("gone:", i), broken, now)
	}
	if len(r.lost) > reachMax {
		t.Errorf("%d addresses are remembered", len(r.lost))
	}
}

// Found by reading, 2026-11-29: with TLS 1.3 a dial succeeds, and the refusal of the certificate is what is read
// first. It was thrown away, and the operator read "use of closed network connection".
func TestWhyAnotherReplicaHasClosedTheConnectionIsTold(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{"it refuses the certificate": errors.New("revoked"), "it ends": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := transport.NewMemory(1)
				secrets := func(verify func(tls.ConnectionState) error) transport.Options {
					config, err := transport.FromSecrets("fleet", []string{"a secret of the fleet"})
					if err != nil {
						t.Fatal(err)
					}
					config.VerifyConnection = verify
					return transport.Options{TLS: config}
				}
				to := newMailboxWith(t, network, 1, func() {}, secrets(func(tls.ConnectionState) error { return refusal }))
				from := newMailboxWith(t, network, 2, func() {}, secrets(func(tls.ConnectionState) error { return nil }))
				defer from.end(t)
				conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				synctest.Wait()
				to.end(t)
				synctest.Wait()
				err = conn.SendMessageBatch(goodBatch(nil))
				cause := from.reach.cause(to.endpoint.Addr())
				if err == nil || cause == nil || cause.Error() != err.Error() {
					t.Fatalf("sending says %v, and the replica is unreachable for %v", err, cause)
				}
				if refusal != nil && !strings.Contains(cause.Error(), "tls: bad certificate") || refusal == nil && !errors.Is(cause, io.EOF) {
					t.Errorf("it says %v", cause)
				}
			})
		})
	}
}

// brokenConn is a connection that the other side has closed.
type brokenConn struct{ net.Conn }

func (brokenConn) SetWriteDeadline(time.Time) error { return nil }
func (brokenConn) Write([]byte) (int, error)        { return 0, io.ErrUnexpectedEOF }

// A write may fail before the refusal is read.
func TestAWriteThatFailsTellsOfTheRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := newMailbox(t, transport.NewMemory(1), 2, func() {})
		defer from.end(t)
		refusal := errors.New("refused")
		s := &sender{carrier: from.Carrier, conn: brokenConn{}, gone: make(chan struct{}), made: time.Now()}
		if err := s.send(frameGreeting, from.greeting(), batchTimeout); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("without a refusal it says %v", err)
		}
		time.AfterFunc(ackEvery/2, func() {
			s.ended = refusal
			close(s.gone)
		})
		if err := s.send(frameGreeting, from.greeting(), batchTimeout); !errors.Is(err, refusal) {
			t.Errorf("it says %v", err)
		}
	})
}
