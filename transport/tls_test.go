package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testlog"
)

// ownAuthority is a TLS configuration as a user would bring it: an authority, and a certificate for
// 127.0.0.1 that it signed, or for what edit makes of it.
func ownAuthority(t *testing.T, edit ...func(leaf *x509.Certificate)) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, f := range edit {
		f(leaf)
	}
	pool := x509.NewCertPool()
	var signed []byte
	for _, template := range []*x509.Certificate{authority, leaf} {
		if signed, err = x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key); err != nil {
			t.Fatal(err)
		}
		if template == authority {
			parsed, err := x509.ParseCertificate(signed)
			if err != nil {
				t.Fatal(err)
			}
			pool.AddCert(parsed)
		}
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}},
		RootCAs:      pool,
	}
}

func TestOwnCertificatesAreMutualEvenIfNotAskedFor(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, _ Options) {
		own := Options{TLS: ownAuthority(t)}
		a, b := listen(t, network, own), listen(t, network, own)
		echo(b, KindRaft)
		wantEcho(t, a, b, KindRaft)
		nobody := secretOptions(t, "fleet", oldSecret) // trusts nobody, has a certificate of its own making
		wantStrangers(t, a, listen(t, network, nobody))

		plain, err := tlsDial(t, a, b, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		if err == nil {
			plain.SetDeadline(time.Now().Add(patience))
			plain.Write(append(appendPreface(nil, KindRaft), 'x'))
			_, err = io.ReadFull(plain, make([]byte, 1))
		}
		if err == nil || isTimeout(err) {
			t.Errorf("a client without a certificate: %v", err)
		}
	})
}

func tlsDial(t *testing.T, from, to Endpoint, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	c := tls.Client(stranger(t, from, to), config)
	return c, c.HandshakeContext(t.Context())
}

func accept(tls.ConnectionState) error { return nil }

func TestTLSConfigurationThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	own := ownAuthority(t)
	own.RootCAs, own.ClientCAs = nil, own.RootCAs
	with := func(edit func(*tls.Config)) *tls.Config {
		c := own.Clone()
		edit(c)
		return c
	}
	chooser := func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
	for name, config := range map[string]*tls.Config{
		"empty":          {},
		"no client cert": {RootCAs: own.ClientCAs, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }},
		"no authority":   {Certificates: own.Certificates},
		"authorities of an empty file, of those that are dialed": with(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }),
		"authorities of an empty file, of clients":               with(func(c *tls.Config) { c.ClientCAs = x509.NewCertPool() }),
		"trusts whoever answers":                                 with(func(c *tls.Config) { c.InsecureSkipVerify = true }),
		"trusts whoever answers, verifies who connects": with(func(c *tls.Config) {
			c.InsecureSkipVerify, c.ClientAuth = true, tls.RequireAndVerifyClientCert
		}),
		"verifies who answers, nobody who connects": with(func(c *tls.Config) {
			c.InsecureSkipVerify, c.ClientCAs, c.VerifyConnection = true, nil, accept
		}),
		"verifies who connects, leaves who answers to the system": with(func(c *tls.Config) {
			c.ClientAuth, c.ClientCAs, c.VerifyConnection = tls.RequireAnyClientCert, nil, accept
		}),
		"chooses, leaves who answers to the system": with(func(c *tls.Config) { c.ClientCAs, c.GetConfigForClient = nil, chooser }),
	} {
		for _, network := range []Network{TCP(), NewMemory(1)} {
			if _, err := network.Listen(t.Context(), "127.0.0.1:0", Options{TLS: config}); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// ClientCAs alone left those that are dialed to the system's authorities: no node reached another,
// and whoever had a certificate of a public authority for the address was believed.
func TestOneSetOfAuthoritiesIsForBothSides(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, _ Options) {
		roots := Options{TLS: ownAuthority(t)}
		clients := Options{TLS: roots.TLS.Clone()}
		clients.TLS.RootCAs, clients.TLS.ClientCAs = nil, roots.TLS.RootCAs
		a, b := listen(t, network, clients), listen(t, network, roots)
		for _, e := range []Endpoint{a, b} {
			echo(e, KindRaft)
			wantEcho(t, a, e, KindRaft)
			wantEcho(t, b, e, KindRaft)
		}
		foreign := Options{TLS: ownAuthority(t)}
		foreign.TLS.RootCAs, foreign.TLS.ClientCAs = nil, foreign.TLS.RootCAs
		wantStrangers(t, a, listen(t, network, foreign))
		trusting := Options{TLS: foreign.TLS.Clone()} // it would take us, but we do not take it
		trusting.TLS.ClientCAs = roots.TLS.RootCAs
		wantStrangers(t, a, listen(t, network, trusting))
	})
}

func TestNoClientAuthLetsInWhoHasNoCertificateOfTheFleet(t *testing.T) {
	t.Parallel()
	own, foreign := ownAuthority(t), ownAuthority(t)
	configs := map[string]*tls.Config{"chosen: none, of a base that verifies nobody": {
		Certificates: own.Certificates, InsecureSkipVerify: true, VerifyConnection: accept,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil },
	}}
	for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequestClientCert, tls.RequireAnyClientCert,
		tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert} {
		c := own.Clone()
		c.ClientAuth = auth
		chooser := own.Clone()
		chooser.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c, nil }
		configs[auth.String()], configs["chosen: "+auth.String()] = c, chooser
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := listen(t, TCP(), Options{TLS: own}), listen(t, TCP(), Options{TLS: config})
			echo(b, KindRaft)
			if !strings.Contains(name, "nobody") {
				wantEcho(t, a, b, KindRaft)
			} else if _, err := serverTLS(config).GetConfigForClient(&tls.ClientHelloInfo{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("who has a certificate of a public authority is let in: %v", err)
			}
			for who, certificates := range map[string][]tls.Certificate{"nobody": nil, "a stranger": foreign.Certificates} {
				plain, err := tlsDial(t, a, b, &tls.Config{
					Certificates: certificates, InsecureSkipVerify: true, NextProtos: []string{protocol},
				})
				if err == nil {
					plain.SetDeadline(time.Now().Add(patience))
					plain.Write(append(appendPreface(nil, KindRaft), 'x'))
					_, err = io.ReadFull(plain, make([]byte, 1))
				}
				if err == nil || isTimeout(err) {
					t.Errorf("%s was let in: %v", who, err)
				}
			}
		})
	}
}

// An own verifier is asked about every connection: crypto/tls leaves VerifyPeerCertificate out when
// it resumes one.
func TestNoSessionIsResumed(t *testing.T) {
	t.Parallel()
	own := ownAuthority(t)
	a, b := listen(t, TCP(), Options{TLS: own}), listen(t, TCP(), Options{TLS: own})
	echo(b, KindRaft)
	dialing := clientTLS(own, b.Addr())
	dialing.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	for range 3 {
		c, err := tlsDial(t, a, b, dialing)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		c.Write(append(appendPreface(nil, KindRaft), 'x'))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // by now a ticket would have come
			t.Fatal(err)
		}
		if c.ConnectionState().DidResume {
			t.Error("resumed")
		}
		c.Close()
	}
}

func TestACertificateThatDoesNotNameItsHostIsExplainedToTheOperator(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*x509.Certificate){
		"a name only": func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"node.example"} },
		"another's address": func(c *x509.Certificate) {
			c.IPAddresses[0], c.DNSNames = net.IPv4(10, 1, 2, 3), []string{"node.example"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log testlog.Lines
			own := ownAuthority(t, edit)
			a := listen(t, TCP(), Options{TLS: own, Logger: log.Logger(slog.LevelInfo)})
			b := listen(t, TCP(), Options{TLS: own})
			echo(b, KindRaft)
			for range 5 {
				_, err := a.Dial(t.Context(), b.Addr(), KindRaft)
				var host x509.HostnameError
				if !errors.As(err, &host) || !strings.Contains(err.Error(), "IP SAN") || !strings.Contains(err.Error(), "ServerName") {
					t.Fatalf("dialing says %v", err)
				}
			}
			if n := log.Count("ServerName"); n != 1 {
				t.Errorf("%d lines for the operator, want 1:\n%s", n, log.String())
			}
			named := own.Clone()
			named.ServerName = "node.example"
			wantEcho(t, listen(t, TCP(), Options{TLS: named}), b, KindRaft)
		})
	}
}
