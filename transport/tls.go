package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// protocol is what nodes name in TLS (ALPN), so that other TLS clients fail in the handshake.
const protocol = "holdfast/1"

// validateTLS refuses configurations with which every connection would fail, and those that would
// trust whoever has a certificate of any public authority, or any certificate at all.
func validateTLS(c *tls.Config) error {
	chooses := c.GetConfigForClient != nil
	switch {
	case len(c.Certificates) == 0 && c.GetCertificate == nil && !chooses:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a server", ErrInvalid)
	case len(c.Certificates) == 0 && c.GetClientCertificate == nil:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a client", ErrInvalid)
	case c.InsecureSkipVerify && !hasVerifier(c):
		return fmt.Errorf("%w: Options.TLS has InsecureSkipVerify without VerifyConnection or VerifyPeerCertificate: "+
			"a node would trust whoever answers", ErrInvalid)
	case !c.InsecureSkipVerify && !hasAuthorities(c):
		return fmt.Errorf("%w: Options.TLS has no RootCAs and no ClientCAs", ErrInvalid)
	case !chooses && !verifiesClients(c):
		return fmt.Errorf("%w: Options.TLS has no ClientCAs and no RootCAs to verify who connects: set them, or "+
			"ClientAuth RequireAnyClientCert beside the function that verifies", ErrInvalid)
	}
	return nil
}

func hasAuthorities(c *tls.Config) bool { return c.ClientCAs != nil || c.RootCAs != nil }

func hasVerifier(c *tls.Config) bool {
	return c.VerifyConnection != nil || c.VerifyPeerCertificate != nil
}

// verifiesItself: crypto/tls is to ask for a certificate and to leave the judgement to c's
// functions.
func verifiesItself(c *tls.Config) bool {
	return c.ClientAuth == tls.RequireAnyClientCert && hasVerifier(c)
}

func verifiesClients(c *tls.Config) bool { return hasAuthorities(c) || verifiesItself(c) }

// serverTLS is the accepting side's configuration: c with everything that makes it mutual TLS 1.3,
// whatever it says of clients. No session is resumed, as crypto/tls asks VerifyPeerCertificate only
// about new ones.
func serverTLS(c *tls.Config) *tls.Config {
	s := mutual(c)
	s.SessionTicketsDisabled = true
	if !verifiesItself(s) {
		s.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if choose := c.GetConfigForClient; choose != nil {
		s.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if err != nil {
				return nil, err
			}
			if chosen == nil {
				chosen = c
			}
			if !verifiesClients(chosen) {
				return nil, fmt.Errorf("%w: the TLS configuration chosen for this client has no ClientCAs", ErrInvalid)
			}
			return serverTLS(chosen), nil
		}
	}
	return s
}

// clientTLS is the dialing side's. Unless c names a server, the peer must prove the host that was
// dialed.
func clientTLS(c *tls.Config, addr string) *tls.Config {
	s := mutual(c)
	s.ClientSessionCache = nil
	if s.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			s.ServerName = host
		}
	}
	return s
}

// mutual is c with what both sides need. Who dials is of the fleet as much as who is dialed, so the
// authorities of one side are those of the other too, unless that has its own: crypto/tls would
// take the system's.
func mutual(c *tls.Config) *tls.Config {
	s := c.Clone()
	s.MinVersion, s.MaxVersion = tls.VersionTLS13, 0
	s.NextProtos = []string{protocol}
	if s.ClientCAs == nil {
		s.ClientCAs = c.RootCAs
	}
	if s.RootCAs == nil {
		s.RootCAs = c.ClientCAs
	}
	return s
}

// advise tells an operator what to do about a certificate that is good, but another host's. This is
// the first thing that goes wrong with certificates of one's own.
func (e *endpoint) advise(err error, addr string) error {
	var other x509.HostnameError
	if !errors.As(err, &other) {
		return err
	}
	err = fmt.Errorf("the certificate shown there does not name %q: nodes need certificates that name the host or the "+
		"IP address (as IP SAN) that they advertise, or one ServerName in Config.TLS that all of them name: %w", other.Host, err)
	if n, ok := e.misnamed.allow(time.Now()); ok {
		e.log.Warn("refused the certificate of a node", "addr", addr, "error", err, "unreported", n)
	}
	return err
}

// handshake is the handshake of TLS. It calls functions of the user's: one that panics costs its
// connection and not the process.
func handshake(ctx context.Context, c *tls.Conn) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: a function of Config.TLS panicked: %v", value)
		}
	}()
	return c.HandshakeContext(ctx)
}
