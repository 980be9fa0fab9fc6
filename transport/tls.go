package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// protocol is what nodes name in TLS (ALPN), so that other TLS clients fail in the handshake.
const protocol = "holdfast/1"

// validateTLS refuses configurations with which every connection would fail, and those that would let in
// whoever has a certificate of any public authority.
func validateTLS(c *tls.Config) error {
	chooses := c.GetConfigForClient != nil
	switch {
	case len(c.Certificates) == 0 && c.GetCertificate == nil && !chooses:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a server", ErrInvalid)
	case len(c.Certificates) == 0 && c.GetClientCertificate == nil:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a client", ErrInvalid)
	case !chooses && !verifiesPeers(c):
		return fmt.Errorf("%w: Options.TLS has no ClientCAs and no RootCAs", ErrInvalid)
	}
	return nil
}

func verifiesPeers(c *tls.Config) bool {
	return c.ClientCAs != nil || c.RootCAs != nil || verifiesItself(c)
}

// verifiesItself: crypto/tls is to ask for a certificate and to leave the judgement to c's functions.
func verifiesItself(c *tls.Config) bool {
	return c.ClientAuth == tls.RequireAnyClientCert && (c.VerifyConnection != nil || c.VerifyPeerCertificate != nil)
}

// serverTLS is the accepting side's configuration: c with everything that makes it mutual TLS 1.3.
func serverTLS(c *tls.Config) *tls.Config {
	s := c.Clone()
	s.MinVersion, s.MaxVersion = tls.VersionTLS13, 0
	s.NextProtos = []string{protocol}
	if !verifiesItself(s) {
		s.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if s.ClientCAs == nil {
		s.ClientCAs = s.RootCAs
	}
	if choose := c.GetConfigForClient; choose != nil {
		s.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			if !verifiesPeers(chosen) {
				return nil, fmt.Errorf("%w: the TLS configuration chosen for this client has no ClientCAs", ErrInvalid)
			}
			return serverTLS(chosen), nil
		}
	}
	return s
}

// clientTLS is the dialing side's. Unless c names a server, the peer must prove the host that was dialed.
func clientTLS(c *tls.Config, addr string) *tls.Config {
	s := c.Clone()
	s.MinVersion, s.MaxVersion = tls.VersionTLS13, 0
	s.NextProtos = []string{protocol}
	if s.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			s.ServerName = host
		}
	}
	return s
}

// handshake is the handshake of TLS. It calls functions of the user's: one that panics costs its connection and
// not the process.
func handshake(ctx context.Context, c *tls.Conn) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: a function of Config.TLS panicked: %v", value)
		}
	}()
	return c.HandshakeContext(ctx)
}
