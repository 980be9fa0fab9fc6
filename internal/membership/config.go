package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/go-sockaddr"
	"github.com/hashicorp/memberlist"

	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/transport"
)

// Config is the identity of a node and its ways to the others.
type Config struct {
	Cluster   string             // label, 1 to 255 bytes: nodes with different ones never meet
	Meta      Meta               // Node and Incarnation never change
	Endpoint  transport.Endpoint // stays open when the Gossip closes
	Advertise string             // host:port, host, or empty: the bound address
	Keys      [][]byte           // 16, 24 or 32 bytes each; the first encrypts, all decrypt; none: packets are plain
	Streams   bool               // streams alone: TLS protects them, and no Keys protect packets
	Join      []string           // see member.ParseJoin; may be empty
	Known     func() []string    // addresses to try when Join leads to no node; may be nil
	Dials     int                // addresses that are tried at once, each for 13 s at most. Default: 4
	Logger    *slog.Logger       // default: discards
	Resolver  member.Resolver    // default: net.DefaultResolver

	// OnMessage receives the messages of other nodes. OnChange is called after a change in Members
	// (calls merge). One goroutine calls both: a slow one delays the other, up to 256 messages
	// wait, and further ones are dropped. Neither may call Close or Leave; nil ones are not called.
	OnMessage func(from string, b []byte)
	OnChange  func()
}

func (c Config) validate() error {
	if c.Cluster == "" || len(c.Cluster) > memberlist.LabelMaxSize {
		return fmt.Errorf("holdfast: gossip: Cluster must have 1 to %d bytes", memberlist.LabelMaxSize)
	}
	if c.Endpoint == nil {
		return errors.New("holdfast: gossip: Endpoint is missing")
	}
	for _, entry := range c.Join {
		if err := member.ParseJoin(entry); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		if memberlist.ValidateKey(key) != nil {
			return errors.New("holdfast: gossip: each of Keys must have 16, 24 or 32 bytes")
		}
	}
	return c.Meta.validate()
}

// advertised returns the address at which other nodes reach this one.
func advertised(ctx context.Context, cfg Config) (net.IP, int, error) {
	bound, port, err := splitAddr(cfg.Endpoint.Addr())
	if err != nil {
		return nil, 0, err
	}
	if cfg.Advertise == "" {
		if bound.IsUnspecified() {
			bound = interfaceIP()
			cfg.Logger.Info("gossip: advertising an address of this machine", "addr", bound.String(), "port", port)
		}
		return bound, port, nil
	}
	host := cfg.Advertise
	if h, digits, err := net.SplitHostPort(cfg.Advertise); err == nil {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return nil, 0, fmt.Errorf("holdfast: Advertise %q: port %q is not between 0 and 65535", cfg.Advertise, digits)
		}
		host = h
		if n != 0 {
			port = int(n)
		}
	}
	if err := member.CheckHost(host); err != nil {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q: %w", cfg.Advertise, err)
	}
	addrs, err := member.ResolveHost(ctx, cfg.Resolver, host, uint16(port))
	if err != nil {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q: %w", cfg.Advertise, err)
	}
	if len(addrs) == 0 {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q has no address", cfg.Advertise)
	}
	return splitAddr(addrs[0])
}

// splitAddr splits ip:port, and gives IPv4 its short form.
func splitAddr(addr string) (net.IP, int, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("holdfast: gossip: %q is not ip:port", addr)
	}
	return net.IP(ap.Addr().Unmap().AsSlice()), int(ap.Port()), nil
}

// interfaceIP chooses an address of this machine: private, public, loopback.
func interfaceIP() net.IP {
	for _, find := range []func() (string, error){sockaddr.GetPrivateIP, sockaddr.GetPublicIP} {
		if s, err := find(); err == nil {
			if ip, err := netip.ParseAddr(s); err == nil {
				return net.IP(ip.Unmap().AsSlice())
			}
		}
	}
	return net.IPv4(127, 0, 0, 1).To4()
}
