package membership

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/go-sockaddr"
)

// advertised returns the address under which others reach this node.
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
	if err := checkHost(host); err != nil {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q: %w", cfg.Advertise, err)
	}
	addrs, err := resolveHost(ctx, cfg.Resolver, host, uint16(port))
	if err != nil {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q: %w", cfg.Advertise, err)
	}
	if len(addrs) == 0 {
		return nil, 0, fmt.Errorf("holdfast: Advertise %q has no address", cfg.Advertise)
	}
	return splitAddr(addrs[0])
}

// splitAddr takes ip:port apart, and gives IPv4 its short form.
func splitAddr(addr string) (net.IP, int, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("holdfast: gossip: %q is no ip:port", addr)
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
