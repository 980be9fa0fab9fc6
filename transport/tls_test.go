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
	"math/big"
	"net"
	"testing"
	"time"
)

// ownAuthority is a TLS configuration as a user would bring it: an authority, and a certificate for
// 127.0.0.1 that it signed.
func ownAuthority(t *testing.T) *tls.Config {
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

func TestTLSConfigurationThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	own := ownAuthority(t)
	for name, config := range map[string]*tls.Config{
		"empty":          {},
		"no client cert": {RootCAs: own.RootCAs, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }},
		"no authority":   {Certificates: own.Certificates},
	} {
		for _, network := range []Network{TCP(), NewMemory(1)} {
			if _, err := network.Listen(t.Context(), "127.0.0.1:0", Options{TLS: config}); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
