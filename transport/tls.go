package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// protocol is the name of nodes in TLS (ALPN): other TLS clients fail in the handshake.
const protocol = "holdfast/1"

// validateTLS refuses a configuration with which every connection would fail, or which would trust
// every certificate, or every one that a public authority has signed.
func validateTLS(c *tls.Config) error {
	chooses := c.GetConfigForClient != nil
	switch {
	case len(c.Certificates) == 0 && c.GetCertificate == nil && !chooses:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a server", ErrInvalid)
	case len(c.Certificates) == 0 && c.GetClientCertificate == nil:
		return fmt.Errorf("%w: Options.TLS has no certificate to show as a client", ErrInvalid)
	case c.InsecureSkipVerify && !hasVerifier(c):
		return fmt.Errorf("%w: Options.TLS has InsecureSkipVerify without VerifyConnection or VerifyPeerCertificate: "+
			"a node would trust every peer", ErrInvalid)
	case !c.InsecureSkipVerify && !hasAuthorities(c):
		return fmt.Errorf("%w: Options.TLS has no RootCAs and no ClientCAs", ErrInvalid)
	case isEmpty(c.RootCAs) || isEmpty(c.ClientCAs):
		return fmt.Errorf("%w: Options.TLS has a pool of authorities without any: AppendCertsFromPEM found no certificate, "+
			"and said so by false", ErrInvalid)
	case !chooses && !verifiesClients(c):
		return fmt.Errorf("%w: Options.TLS has no ClientCAs and no RootCAs to verify clients: set them, or "+
			"ClientAuth RequireAnyClientCert beside the function that verifies", ErrInvalid)
	}
	return nil
}

func hasAuthorities(c *tls.Config) bool { return c.ClientCAs != nil || c.RootCAs != nil }

// isEmpty reports whether pool verifies nobody.
func isEmpty(pool *x509.CertPool) bool { return pool != nil && pool.Equal(x509.NewCertPool()) }

func hasVerifier(c *tls.Config) bool {
	return c.VerifyConnection != nil || c.VerifyPeerCertificate != nil
}

// verifiesItself reports whether c's functions, not crypto/tls, verify the certificates of clients.
func verifiesItself(c *tls.Config) bool {
	return c.ClientAuth == tls.RequireAnyClientCert && hasVerifier(c)
}

func verifiesClients(c *tls.Config) bool { return hasAuthorities(c) || verifiesItself(c) }

// serverTLS is the accepting side's configuration: c made mutual TLS 1.3. It resumes no session,
// because crypto/tls calls VerifyPeerCertificate only for new ones.
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

// clientTLS is the dialing side's. The peer must prove c's ServerName, or else the dialed host.
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

// mutual is c with the settings of both sides. Both peers are of one fleet, so a side without
// authorities uses those of the other: crypto/tls would use the system's.
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

// advise adds the remedy to the error of a valid certificate that names another host, the most
// frequent mistake with own certificates.
func (e *endpoint) advise(err error, addr string) error {
	var other x509.HostnameError
	if !errors.As(err, &other) {
		return err
	}
	err = fmt.Errorf("the certificate of the node does not name %q: nodes need certificates that name the host or the "+
		"IP address (as IP SAN) that they advertise, or one ServerName in Config.TLS that all of them name: %w", other.Host, err)
	if n, ok := e.misnamed.Take(time.Now()); ok {
		e.log.Warn("refused the certificate of a node", "addr", addr, "error", err, "unreported", n)
	}
	return err
}
