package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"
	"time"
)

const (
	oldSecret = "the old secret of the fleet"
	newSecret = "the new secret of the fleet"
)

// wantStrangers expects that no bytes pass between two endpoints, whoever dials.
func wantStrangers(t *testing.T, a, b Endpoint) {
	t.Helper()
	for _, ends := range [][2]Endpoint{{a, b}, {b, a}} {
		accepted, stop := arrivals(ends[1], KindRaft)
		if c, err := ends[0].Dial(t.Context(), ends[1].Addr(), KindRaft); err == nil {
			wantRefused(t, c) // TLS 1.3: the dialing side may hear of it last
		}
		stop()
		if len(accepted) > 0 {
			t.Error("a stranger was let in")
		}
	}
}

func TestWrongSecretIsRefusedByBothSides(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, _ Options) {
		fleet := secretOptions(t, "fleet", oldSecret)
		for name, other := range map[string]Options{
			"another secret":         secretOptions(t, "fleet", newSecret),
			"another cluster's name": secretOptions(t, "fleet2", oldSecret),
			"no TLS":                 {},
			"no certificate": {TLS: &tls.Config{
				InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert,
				VerifyConnection:     func(tls.ConnectionState) error { return nil },
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil },
				GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errTest },
			}},
		} {
			t.Run(name, func(t *testing.T) {
				fleet, other := fleet, other
				fleet.HandshakeTimeout, other.PrefaceTimeout = 200*time.Millisecond, 200*time.Millisecond
				a, b := listen(t, network, fleet), listen(t, network, other)
				wantStrangers(t, a, b)
			})
		}
	})
}

func TestSecretsRotateWithoutAGap(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, _ Options) {
		steps := [][]string{{oldSecret}, {oldSecret, newSecret}, {newSecret, oldSecret}, {newSecret}}
		var fleet []Endpoint
		for _, secrets := range steps {
			e := listen(t, network, secretOptions(t, "fleet", secrets...))
			echo(e, KindGossip)
			fleet = append(fleet, e)
		}
		for i := range len(fleet) - 1 { // nodes one step apart coexist during a rolling restart
			wantEcho(t, fleet[i], fleet[i+1], KindGossip)
			wantEcho(t, fleet[i+1], fleet[i], KindGossip)
		}
		wantStrangers(t, fleet[0], fleet[len(fleet)-1])
	})
}

func TestClockFarOffDoesNotLockANodeOut(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, _ Options) {
		late, early := secretOptions(t, "fleet", oldSecret), secretOptions(t, "fleet", oldSecret)
		late.TLS.Time = func() time.Time { return time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC) }
		early.TLS.Time = func() time.Time { return time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC) }
		a, b := listen(t, network, late), listen(t, network, early)
		echo(b, KindRaft)
		wantEcho(t, a, b, KindRaft)
	})
}

func TestKeysDependOnSecretClusterAndPurpose(t *testing.T) {
	t.Parallel()
	base, err := GossipKeys("fleet", []string{oldSecret, newSecret})
	if err != nil || len(base) != 2 || len(base[0]) != 32 {
		t.Fatalf("%d keys, %v", len(base), err)
	}
	again, _ := GossipKeys("fleet", []string{oldSecret})
	other, _ := GossipKeys("fleet2", []string{oldSecret})
	connection, _ := derive("fleet", []string{oldSecret}, "holdfast v1 connection key", 32)
	if !bytes.Equal(base[0], again[0]) {
		t.Error("two nodes with one secret have different keys")
	}
	for name, key := range map[string][]byte{"secret": base[1], "cluster": other[0], "purpose": connection[0]} {
		if bytes.Equal(base[0], key) {
			t.Errorf("the key does not depend on the %s", name)
		}
	}
}

func TestMissingSecretsAreRefused(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{nil, {}, {""}, {oldSecret, ""}} {
		if _, err := FromSecrets("fleet", secrets); !errors.Is(err, ErrInvalid) {
			t.Errorf("FromSecrets of %q: %v", secrets, err)
		}
		if _, err := GossipKeys("fleet", secrets); !errors.Is(err, ErrInvalid) {
			t.Errorf("GossipKeys of %q: %v", secrets, err)
		}
	}
}
