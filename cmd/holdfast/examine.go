package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	dialMax   = 5 * time.Second
	udpMax    = 300 * time.Millisecond // for a refusal to come back
	stepMax   = 100 * time.Millisecond
	expiryMin = 14 * 24 * time.Hour
	fsyncs    = 32
	fsyncSlow = 20 * time.Millisecond // of half of them: what docs/operations.md calls slow
)

// examineConfig reads what the flags name.
func (a *app) examineConfig(now time.Time) (found []finding) {
	f := &a.fleet
	secrets, err := f.secrets()
	if err != nil {
		return []finding{failed("config", firstLine(err), asExit(err).advice)}
	}
	certificates, err := f.certificates()
	if err != nil {
		return []finding{failed("config", firstLine(err), asExit(err).advice)}
	}
	cluster := f.name()
	if cluster == "" {
		cluster = clusterDefault
	}
	found = append(found, fine("config", "fleet %q, %d secrets, certificates: %t", cluster, len(secrets), certificates != nil))
	if info, err := os.Stat(f.secretFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		found = append(found, warning("config", f.secretFile+" can be read by others: "+info.Mode().Perm().String(), "chmod 600 "+f.secretFile))
	}
	for i, s := range secrets {
		if len(s) < 16 {
			found = append(found, warning("config", fmt.Sprintf("secret %d has %d bytes", i+1, len(s)), "Use random ones: holdfast keygen."))
		}
	}
	if certificates == nil {
		if len(secrets) == 0 {
			found = append(found, warning("config", "neither secrets nor certificates", "That is for a fleet on loopback, or one with Insecure."))
		}
		return found
	}
	leaf, err := x509.ParseCertificate(certificates.Certificates[0].Certificate[0])
	switch {
	case err != nil:
		found = append(found, failed("config", err.Error(), "Name a certificate in PEM with --cert."))
	case now.After(leaf.NotAfter) || now.Before(leaf.NotBefore):
		found = append(found, failed("config", fmt.Sprintf("the certificate is valid from %s to %s", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339)), "Renew it, or set the clock."))
	case leaf.NotAfter.Sub(now) < expiryMin:
		found = append(found, warning("config", "the certificate expires at "+leaf.NotAfter.Format(time.RFC3339), "Renew it."))
	}
	return found
}

const clusterDefault = "holdfast"

// examineNames resolves the join entries.
func (a *app) examineNames(ctx context.Context) (addrs []string, found []finding) {
	seeds := a.fleet.seeds()
	if len(seeds) == 0 {
		return nil, []finding{failed("names", "no node of a fleet is named", "Say --join HOST:PORT, or set HOLDFAST_JOIN.")}
	}
	for _, entry := range seeds {
		led, err := member.Resolve(ctx, net.DefaultResolver, new(member.Files), []string{entry})
		switch {
		case err != nil:
			found = append(found, failed("names", firstLine(err), "Mend the entry or the name service: "+entry))
		case len(led) == 0:
			found = append(found, failed("names", entry+" leads to no address", "Name a node that is there."))
		default:
			found = append(found, fine("names", "%s leads to %v", entry, led))
		}
		addrs = append(addrs, led...)
	}
	slices.Sort(addrs)
	return slices.Compact(addrs), found
}

// examinePorts connects to addresses, and returns those that answer.
func (a *app) examinePorts(ctx context.Context, addrs []string) (reached []string, found []finding) {
	for _, addr := range addrs {
		began := time.Now()
		dialer := net.Dialer{Timeout: dialMax}
		c, err := dialer.DialContext(ctx, "tcp", addr)
		switch {
		case transport.Refused(err):
			found = append(found, failed("tcp", addr+" refuses", "Start the node, or name the port that it binds (Config.Bind)."))
			continue
		case err != nil:
			found = append(found, failed("tcp", firstLine(err), "Let the firewall pass TCP to this port."))
			continue
		}
		_ = c.Close()
		reached = append(reached, addr)
		found = append(found, fine("tcp", "%s answers after %v", addr, time.Since(began).Round(10*time.Microsecond)))
	}
	return reached, found
}

// examineUDP sends an empty packet, which no node takes for gossip: a closed port refuses it.
func examineUDP(addr string) finding {
	c, err := net.Dial("udp", addr)
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(udpMax))
		if _, err = c.Write(nil); err == nil {
			_, err = c.Read(make([]byte, 1))
		}
	}
	if transport.Refused(err) {
		return warning("udp", addr+" refuses", "Open UDP on the same number as TCP: without it nodes gossip by TCP, more slowly.")
	}
	return fine("udp", "%s does not refuse", addr)
}

// examineSeal does the handshake with all addresses at once, within --timeout: one node may have other secrets
// than the rest.
func (a *app) examineSeal(ctx context.Context, addrs []string) []finding {
	cfg, err := a.fleet.config(slog.New(slog.DiscardHandler))
	if err != nil {
		return []finding{failed("seal", firstLine(err), asExit(err).advice)}
	}
	if cfg.Cluster == "" {
		cfg.Cluster = clusterDefault
	}
	security, _, err := transport.Security(cfg.Cluster, cfg.Secrets, cfg.TLS)
	if err != nil {
		return []finding{failed("seal", firstLine(err), "Mend the secrets or the certificates.")}
	}
	if security == nil {
		return []finding{warning("seal", "nothing is sealed: without secrets and certificates", "That is for a fleet on loopback, or one with Insecure.")}
	}
	endpoint, err := transport.Dialer().Listen(ctx, "", transport.Options{TLS: security, Logger: cfg.Logger})
	if err != nil {
		return []finding{failed("seal", firstLine(err), "")}
	}
	defer endpoint.Close()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	found := make([]finding, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() { found[i] = shake(ctx, endpoint, addr) })
	}
	all.Wait()
	return found
}

// shake does the handshake with one address.
func shake(ctx context.Context, endpoint transport.Endpoint, addr string) finding {
	c, err := endpoint.Dial(ctx, addr, transport.KindClient)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failed("seal", firstLine(err), "What takes connections there hangs, or is no node: see its log, and the machine.")
	case err != nil:
		return failed("seal", firstLine(err), "The node has other secrets or certificates, or another fleet's name: compare --secret-file, --cluster and the certificates.")
	}
	_ = c.Close()
	return fine("seal", "%s knows our secret or certificate", addr)
}

// examineDisk measures what a voter waits for before each answer.
func examineDisk(dir string) finding {
	path := filepath.Join(dir, fmt.Sprintf("holdfast-doctor-%d", os.Getpid()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return failed("fsync", firstLine(err), "Name a directory that can be written to with --data-dir.")
	}
	defer os.Remove(path)
	defer f.Close()
	times := make([]time.Duration, fsyncs)
	for i := range times {
		began := time.Now()
		if _, err = f.Write(make([]byte, 4096)); err == nil {
			err = f.Sync()
		}
		if err != nil {
			return failed("fsync", firstLine(err), "The disk is full or broken: a node on it fails.")
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	median, worst := times[fsyncs/2], times[fsyncs-1]
	detail := fmt.Sprintf("median %v, worst %v of %d", median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond), fsyncs)
	if median > fsyncSlow {
		return warning("fsync", detail, "Every lock waits for it on a majority of the voters: use a disk of its own, with a cache that survives a loss of power.")
	}
	return finding{"fsync", "ok", detail, ""}
}

// examineClock judges a step of the wall clock against the monotonic one.
func examineClock(step time.Duration) finding {
	switch synced, known := clockSynced(); {
	case step.Abs() > stepMax:
		return warning("clock", fmt.Sprintf("the clock stepped by %v meanwhile", step.Round(time.Millisecond)), "Let chrony or another NTP client slew the clock.")
	case !known:
		return fine("clock", "it did not step; whether it is kept in time is not known on this system")
	case !synced:
		return warning("clock", "the kernel says that nothing keeps the clock in time", "Start chrony or another NTP client: tokens after a restart go by wall clocks.")
	}
	return fine("clock", "it is kept in time, and did not step")
}
