package transport

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// SecretAdvised is the length in bytes that a secret should have. Every client that connects sees
// the public key of the secret and can test guesses against it offline: a secret should be random,
// not a password. Only an empty one is refused.
const SecretAdvised = 16

// errStranger refuses a peer whose key belongs to none of the secrets.
var errStranger = errors.New("holdfast: peer does not know the cluster's secret")

// FromSecrets derives the TLS configuration of a fleet, for both roles, from its shared secrets.
// Each secret yields one Ed25519 key (HKDF-SHA256, bound to the cluster's name). The node shows a
// certificate of the first key and accepts peers that prove any of the keys. Nothing else in a
// certificate counts, nor do its dates: a node with a wrong clock is not locked out.
func FromSecrets(cluster string, secrets []string) (*tls.Config, error) {
	seeds, err := derive(cluster, secrets, "holdfast v1 connection key", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	trusted := make([]ed25519.PublicKey, len(seeds))
	for i, seed := range seeds {
		trusted[i] = ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	}
	cert, err := selfSigned(ed25519.NewKeyFromSeed(seeds[0]))
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // no chain, no names: VerifyConnection decides, in both roles
		VerifyConnection:       func(cs tls.ConnectionState) error { return verifyKey(cs, trusted) },
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,
	}, nil
}

// GossipKeys derives the 32-byte keys of gossip packets: the first encrypts, all decrypt.
func GossipKeys(cluster string, secrets []string) ([][]byte, error) {
	return derive(cluster, secrets, "holdfast v1 gossip key", 32)
}

// Security makes the keys of connections and of gossip from the secrets and certificates of a fleet.
// Certificates of its own seal the connections instead of the secrets; without secrets gossip has no
// key.
func Security(cluster string, secrets []string, own *tls.Config) (connections *tls.Config, gossip [][]byte, err error) {
	if len(secrets) == 0 {
		return own, nil, nil
	}
	if gossip, err = GossipKeys(cluster, secrets); err != nil || own != nil {
		return own, gossip, err
	}
	connections, err = FromSecrets(cluster, secrets)
	return connections, gossip, err
}

func derive(cluster string, secrets []string, purpose string, size int) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: no secrets", ErrInvalid)
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		if secret == "" {
			return nil, fmt.Errorf("%w: secret %d is empty", ErrInvalid, i)
		}
		key, err := hkdf.Key(sha256.New, []byte(secret), []byte(cluster), purpose, size)
		if err != nil {
			return nil, fmt.Errorf("holdfast: deriving a key from secret %d: %w", i, err)
		}
		keys[i] = key
	}
	return keys, nil
}

// verifyKey accepts a peer by its public key. TLS has already checked that the peer holds the
// private one.
func verifyKey(cs tls.ConnectionState, trusted []ed25519.PublicKey) error {
	if len(cs.PeerCertificates) > 0 {
		key := cs.PeerCertificates[0].PublicKey
		if slices.ContainsFunc(trusted, func(t ed25519.PublicKey) bool { return t.Equal(key) }) {
			return nil
		}
	}
	return errStranger
}

// selfSigned returns a certificate of the key. Everything else in it is constant.
func selfSigned(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "holdfast"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("holdfast: making the connection certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
