package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"hash/fnv"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
)

// PeersFile is a file of addresses through which the nodes of a test find each other.
type PeersFile struct {
	t    testing.TB
	path string
}

// NewPeersFile makes an empty file in a directory of the test's.
func NewPeersFile(t testing.TB) *PeersFile {
	t.Helper()
	return &PeersFile{t: t, path: filepath.Join(t.TempDir(), "peers")}
}

// Cluster is a name for the fleet of a test, which no other test has: the system gives the port of a node
// that has ended to the next who asks, and nodes that look for it there would take whom they find for one
// of theirs.
func Cluster(t testing.TB) string {
	name := fnv.New64a()
	name.Write([]byte(t.Name())) // as long as it likes: a cluster's name is not
	return fmt.Sprintf("test-%x-%d", name.Sum64(), os.Getpid())
}

// Join is the Config.Join of nodes that look into the file.
func (b *PeersFile) Join() []string { return []string{"file+" + b.path} }

// Path is the name of the file.
func (b *PeersFile) Path() string { return b.path }

// Add writes where c is.
func (b *PeersFile) Add(c *holdfast.Cluster) {
	b.t.Helper()
	if err := process.AppendLine(b.path, c.Addr()); err != nil {
		b.t.Fatal(err)
	}
}

// Open opens a node on real sockets that joins through the file.
func (b *PeersFile) Open(i int, change ...func(i int, cfg *holdfast.Config)) *holdfast.Cluster {
	b.t.Helper()
	cfg := holdfast.Config{Cluster: Cluster(b.t), Name: fmt.Sprint("n", i), Join: b.Join(), Logger: Quiet(), MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(i, &cfg)
	}
	c, err := holdfast.Open(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	b.Add(c)
	return c
}

// Fleet opens n nodes on real sockets in this process and waits until all are ready.
func Fleet(t testing.TB, n int, change ...func(i int, cfg *holdfast.Config)) []*holdfast.Cluster {
	t.Helper()
	b := NewPeersFile(t)
	list := make([]*holdfast.Cluster, n)
	for i := range list {
		list[i] = b.Open(i, append([]func(int, *holdfast.Config){func(_ int, cfg *holdfast.Config) {
			cfg.Bootstrap = min(n, 3)
		}}, change...)...)
	}
	AllReady(t, list)
	return list
}

// AllReady waits until all of a list are ready.
func AllReady(t testing.TB, list []*holdfast.Cluster) {
	t.Helper()
	for i, c := range list {
		if err := c.Ready(Within(t, Patience)); err != nil {
			t.Fatalf("node %d is not ready: %v", i, err)
		}
	}
}

// Serves fails the test unless the node grants, verifies and releases a lock of its own.
func Serves(t testing.TB, ctx context.Context, c *holdfast.Cluster) {
	t.Helper()
	name := "own/" + c.ID()
	l, err := c.Acquire(ctx, name)
	if err != nil {
		t.Fatalf("acquiring: %v", err)
	}
	if err := c.Verify(ctx, name, l.Token()); err != nil {
		t.Errorf("verifying: %v", err)
	}
	if info, err := c.Inspect(ctx, name); err != nil || len(info.Holders) != 1 || info.Holders[0].NodeID != c.ID() {
		t.Errorf("inspecting: %+v, %v", info, err)
	}
	if err := l.Release(ctx); err != nil {
		t.Errorf("releasing: %v", err)
	}
}

// Authority is a TLS configuration as a user brings it: an authority, and a certificate for
// 127.0.0.1 that it signed.
func Authority(t testing.TB) *tls.Config {
	t.Helper()
	valid, _ := Authorities(t)
	return valid
}

// Authorities is Authority, and the same with a certificate that has expired.
func Authorities(t testing.TB) (valid, expired *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := func(ends time.Time) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
			NotAfter: ends, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
	}
	signed := make([][]byte, 3)
	for i, c := range []*x509.Certificate{root, leaf(time.Now().Add(time.Hour)), leaf(time.Now().Add(-time.Hour))} {
		if signed[i], err = x509.CreateCertificate(rand.Reader, c, root, key.Public(), key); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(signed[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	with := func(leaf []byte) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: key}}, RootCAs: pool}
	}
	return with(signed[1]), with(signed[2])
}
