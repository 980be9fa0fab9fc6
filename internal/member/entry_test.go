package member

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// TestMain: a read that hangs has a goroutine, which ends with it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseJoinAcceptsEveryKindOfEntry(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"10.0.0.1:7643", "10.0.0.1", "[::1]:7643", "::1", "[::1]", "node-1:99", "node-1.example.com.", "localhost",
		"dns+node:7643", "dns+node", "dnssrv+_holdfast._tcp.example.com", "file+/etc/holdfast/peers", "file+peers",
	} {
		if err := ParseJoin(entry); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func TestParseJoinRefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", ":7643", "host:", "host:0", "host:65536", "host:http", "host:1:2", "a b", "http://host:1", "dns+", "dns+dns+x",
		"dnssrv+", "dnssrv+host:1", "file+", "0.0.0.0:7643", "::", "224.0.0.1:1", "fe80::1%eth0", "[fe80::1%eth0]:7643",
		"host\n:1", "a,b", "node/10.0.0.1:1", strings.Repeat("x", 254), "[::1", "consul+x",
	} {
		err := ParseJoin(entry)
		if err == nil {
			t.Errorf("%q was accepted", entry)
		} else if !strings.HasPrefix(err.Error(), "holdfast: join entry ") {
			t.Errorf("error %q does not name the entry", err)
		}
	}
}

func FuzzParseJoin(f *testing.F) {
	for _, entry := range []string{"host:1", "[::1]:2", "dns+x", "dnssrv+x", "file+x", "fe80::1%z"} {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		if ParseJoin(entry) != nil || strings.HasPrefix(entry, prefixFile) {
			return
		}
		// What is accepted can be resolved, once the names are known.
		addrs, err := resolve(t.Context(), anyName{net.DefaultResolver}, nil, entry)
		if err != nil && !strings.HasPrefix(entry, prefixSRV) {
			t.Errorf("%q: %v", entry, err)
		}
		for _, addr := range addrs {
			if _, err := netip.ParseAddrPort(addr); err != nil {
				t.Errorf("%q: %v", entry, err)
			}
		}
	})
}

// Entries were looked up one after the other: three names behind a silent server took 15 s.
func TestEntriesAreLookedUpBesideEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		entries := []string{"a:1", "b:1", "10.0.0.9:1", "c:1"}
		addrs, err := Resolve(t.Context(), silent{}, new(Files), entries)
		if took := time.Since(began); took != lookupLimit || !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(addrs, []string{"10.0.0.9:1"}) {
			t.Errorf("after %v: %v, %v", took, addrs, err)
		}
		many := make([]string, 3*lookupsMax)
		for i := range many {
			many[i] = "a:1"
		}
		began = time.Now()
		if _, _ = Resolve(t.Context(), silent{}, new(Files), many); time.Since(began) != 3*lookupLimit {
			t.Errorf("%d entries take %v: more than %d at once", len(many), time.Since(began), lookupsMax)
		}
	})
}

// The names of a file, and the targets of a service, were looked up one after the other within 5 s in
// all: a client whose file began with nodes of a data center that was gone, and its name server with
// it, never found the other half.
func TestASilentNameHidesNoOtherOfItsEntry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(path, []byte("gone1:1\ngone2:1\nn1.here:2\nn2.here:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		for entry, want := range map[string][]string{
			prefixFile + path:   {"10.0.0.9:2", "10.0.0.9:2"},
			prefixSRV + "nodes": {"10.0.0.9:2"},
		} {
			began := time.Now()
			addrs, err := Resolve(t.Context(), silent{}, new(Files), []string{entry})
			if took := time.Since(began); took != lookupLimit || !slices.Equal(addrs, want) {
				t.Errorf("%s: after %v: %v, %v", entry, took, addrs, err)
			}
		}
	})
}

// silent is a name server that does not answer for nodes that are not here.
type silent struct{ Resolver }

func (silent) LookupHost(ctx context.Context, host string) ([]string, error) {
	if strings.HasSuffix(host, ".here") {
		return []string{"10.0.0.9"}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", []*net.SRV{{Target: "gone1.", Port: 1}, {Target: "gone2.", Port: 1}, {Target: "n1.here.", Port: 2}}, nil
}

// anyName resolves every name.
type anyName struct{ Resolver }

func (anyName) LookupHost(context.Context, string) ([]string, error) {
	return []string{"10.0.0.1", "fd00::1", "fe80::1%eth0", "nonsense"}, nil
}

func (anyName) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}
