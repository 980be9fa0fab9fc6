package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
)

// fleetFlags say which fleet to join, and with what.
type fleetFlags struct {
	join                      []string
	secretFile, cluster       string
	caFile, certFile, keyFile string
	serverName                string
}

func (f *fleetFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.join, "join", nil, "addresses of nodes: host:port, dns+host:port, dnssrv+name, file+path (default HOLDFAST_JOIN)")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the fleet's secrets, one a line (default: HOLDFAST_SECRETS has them, separated by commas)")
	flags.StringVar(&f.cluster, "cluster", "", `name of the fleet (default HOLDFAST_CLUSTER, else "holdfast")`)
	flags.StringVar(&f.caFile, "ca", "", "file with the authorities of the fleet's certificates, instead of secrets")
	flags.StringVar(&f.certFile, "cert", "", "file with the certificate of this command, with --ca")
	flags.StringVar(&f.keyFile, "key", "", "file with the key of --cert")
	flags.StringVar(&f.serverName, "server-name", "", "name in the certificates of the nodes (default: the host that is dialed)")
}

// split takes apart what an environment variable lists.
func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// secretsOf are those of HOLDFAST_SECRETS, as the examples read it: a secret may have blanks within.
func secretsOf(s string) (list []string) {
	for secret := range strings.SplitSeq(s, ",") {
		if secret = strings.TrimSpace(secret); secret != "" {
			list = append(list, secret)
		}
	}
	return list
}

// seeds are the addresses to join by.
func (f *fleetFlags) seeds() []string {
	if len(f.join) > 0 {
		return f.join
	}
	return split(os.Getenv("HOLDFAST_JOIN"))
}

// name is that of the fleet, "" for the default.
func (f *fleetFlags) name() string {
	if f.cluster != "" {
		return f.cluster
	}
	return os.Getenv("HOLDFAST_CLUSTER")
}

// secrets are those of the file, or of the environment.
func (f *fleetFlags) secrets() (list []string, err error) {
	if f.secretFile == "" {
		return secretsOf(os.Getenv("HOLDFAST_SECRETS")), nil
	}
	text, err := os.ReadFile(f.secretFile)
	if err != nil {
		return nil, &exit{codeUsage, err, "Name a file that can be read with --secret-file."}
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		return nil, &exit{codeUsage, fmt.Errorf("%s has no secret", f.secretFile), "Write one secret a line; `holdfast keygen` makes one."}
	}
	return list, nil
}

// certificates are those of the flags, nil without them.
func (f *fleetFlags) certificates() (*tls.Config, error) {
	if f.caFile == "" && f.certFile == "" && f.keyFile == "" {
		return nil, nil
	}
	if f.caFile == "" || f.certFile == "" || f.keyFile == "" {
		return nil, &exit{codeUsage, errors.New("of --ca, --cert and --key some are missing"), "Name all three files."}
	}
	pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return nil, &exit{codeUsage, err, "Name a certificate with --cert and its key with --key, both in PEM."}
	}
	text, err := os.ReadFile(f.caFile)
	authorities := x509.NewCertPool()
	if err == nil && !authorities.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no certificate in PEM", f.caFile)
	}
	if err != nil {
		return nil, &exit{codeUsage, err, "Name a file of authorities with --ca."}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities, ServerName: f.serverName, MinVersion: tls.VersionTLS13}, nil
}

// config is that of a client: a node without a replica, a vote and a port.
func (f *fleetFlags) config(log *slog.Logger) (cfg holdfast.Config, err error) {
	cfg = holdfast.Config{Cluster: f.name(), Join: f.seeds(), Name: nodeName(), ClientOnly: true, Logger: log}
	if len(cfg.Join) == 0 {
		return cfg, &exit{codeUsage, errors.New("no node of a fleet is named"), "Say --join HOST:PORT, or set HOLDFAST_JOIN."}
	}
	if cfg.Secrets, err = f.secrets(); err != nil {
		return cfg, err
	}
	cfg.TLS, err = f.certificates()
	return cfg, err
}

// nodeName tells people who holds a lock: the host, and the process.
func nodeName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%.100s/holdfast-%d", host, os.Getpid())
}

// log is what this node logs: errors alone, or with --verbose all that an operator might want.
func (a *app) log() *slog.Logger {
	level := slog.LevelError
	if a.verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}

// join joins the fleet, and waits until it answers.
func (a *app) join(ctx context.Context) (*holdfast.Cluster, error) {
	c, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Ready(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// open begins to join the fleet.
func (a *app) open(ctx context.Context) (*holdfast.Cluster, error) {
	cfg, err := a.fleet.config(a.log())
	if err != nil {
		return nil, err
	}
	ttl := cmp.Or(a.ttl, holdfast.TTLMin)
	cfg.TTL, cfg.MaxTTL = ttl, ttl // a client must not ask for more than its fleet allows
	return holdfast.Open(ctx, cfg)
}
