package member

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// PortDefault is the port of a join entry without one.
const PortDefault = 7643

const (
	lookupLimit = 5 * time.Second // for one name or one file
	entryLimit  = 3 * lookupLimit // for one entry, which may lead to many names
	lookupsMax  = 8               // entries that are looked up at once, and names of one entry
)

// Resolver resolves names; *net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Prefixes of the kinds of join entries.
const (
	prefixDNS  = "dns+"
	prefixSRV  = "dnssrv+"
	prefixFile = "file+"
)

// ParseJoin returns the error of an invalid join entry. Entries are host:port, a bare host (port
// 7643), dns+host:port (the same), dnssrv+name, and file+path; the file has one entry of the other
// kinds a line. It does no I/O.
func ParseJoin(entry string) error {
	if err := parseEntry(entry); err != nil {
		return fmt.Errorf("holdfast: join entry %q: %w", entry, err)
	}
	return nil
}

func parseEntry(entry string) error {
	if path, ok := strings.CutPrefix(entry, prefixFile); ok {
		if path == "" {
			return errors.New("the path is missing")
		}
		return nil
	}
	if name, ok := strings.CutPrefix(entry, prefixSRV); ok {
		return CheckHost(name)
	}
	_, _, err := splitEntry(strings.TrimPrefix(entry, prefixDNS))
	return err
}

// splitEntry splits host:port; a bare host has PortDefault.
func splitEntry(entry string) (host string, port uint16, err error) {
	bare := entry
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		bare = strings.TrimSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(bare); err == nil && (bare == entry || "["+bare+"]" == entry) {
		return bare, PortDefault, CheckHost(bare)
	}
	host, digits, err := net.SplitHostPort(entry)
	if err != nil {
		if strings.Contains(entry, ":") {
			return "", 0, errors.New("neither host:port nor a host")
		}
		return entry, PortDefault, CheckHost(entry)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q is not between 1 and 65535", digits)
	}
	return host, uint16(n), CheckHost(host)
}

// CheckHost returns the error of a host that no node can be reached at.
func CheckHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		switch {
		case addr.Zone() != "":
			return errors.New("addresses with a zone are not supported")
		case addr.IsUnspecified() || addr.IsMulticast():
			return errors.New("not the address of a node")
		}
		return nil
	}
	if host == "" {
		return errors.New("the host is missing")
	}
	if len(host) > 253 || strings.ContainsAny(host, "/+[]@:?#,; \t") || !Printable(host) {
		return errors.New("not a host name")
	}
	return nil
}

// Resolve returns the addresses that join entries lead to, ip:port, in their order, and why some of them lead to
// none. Entries are looked up beside each other: the name server of one may be silent.
func Resolve(ctx context.Context, r Resolver, files *Files, entries []string) (addrs []string, failed error) {
	return together(entries, func(entry string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, entryLimit)
		defer cancel()
		return resolve(ctx, r, files, entry)
	})
}

// together looks up all of a list beside each other, and returns what was found in the order of the list.
func together[T any](list []T, look func(T) ([]string, error)) (addrs []string, failed error) {
	found, errs := make([][]string, len(list)), make([]error, len(list))
	places := make(chan struct{}, lookupsMax)
	var all sync.WaitGroup
	for i, one := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			found[i], errs[i] = look(one)
		})
	}
	all.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// resolve returns the addresses of an entry, ip:port.
func resolve(ctx context.Context, r Resolver, files *Files, entry string) ([]string, error) {
	if err := ParseJoin(entry); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(entry, prefixFile); ok {
		return resolveFile(ctx, r, files, path)
	}
	if name, ok := strings.CutPrefix(entry, prefixSRV); ok {
		return resolveSRV(ctx, r, name)
	}
	host, port, err := splitEntry(strings.TrimPrefix(entry, prefixDNS))
	if err != nil {
		return nil, err
	}
	return ResolveHost(ctx, r, host, port)
}

// ResolveHost returns the addresses of a host, ip:port.
func ResolveHost(ctx context.Context, r Resolver, host string, port uint16) ([]string, error) {
	hosts := []string{host}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	if _, err := netip.ParseAddr(host); err != nil {
		if hosts, err = r.LookupHost(ctx, host); err != nil {
			return nil, fmt.Errorf("holdfast: join: %w", err)
		}
	}
	var addrs []string
	for _, h := range hosts {
		if ip, err := netip.ParseAddr(h); err == nil && ip.Zone() == "" {
			addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), port).String())
		}
	}
	return addrs, nil
}

// resolveSRV returns the addresses that it could resolve, or an error if there are none.
func resolveSRV(ctx context.Context, r Resolver, name string) ([]string, error) {
	look, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	_, records, err := r.LookupSRV(look, "", "", name)
	if err != nil {
		return nil, fmt.Errorf("holdfast: join: %w", err)
	}
	addrs, failed := together(records, func(record *net.SRV) ([]string, error) {
		return ResolveHost(ctx, r, strings.TrimSuffix(record.Target, "."), record.Port)
	})
	if len(addrs) > 0 {
		failed = nil
	}
	return addrs, failed
}

// resolveFile reads the file each time: it may gain nodes after this one has started.
func resolveFile(ctx context.Context, r Resolver, files *Files, path string) ([]string, error) {
	read, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	text, err := files.read(read, path)
	if err != nil {
		return nil, fmt.Errorf("holdfast: join: %w", err)
	}
	var entries []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		entries = append(entries, line)
	}
	addrs, failed := together(entries, func(entry string) ([]string, error) {
		if strings.HasPrefix(entry, prefixFile) {
			return nil, fmt.Errorf("holdfast: join: %s: a file names another file", path)
		}
		return resolve(ctx, r, files, entry)
	})
	return addrs, errors.Join(failed, lines.Err())
}

// Printable keeps control characters of strangers out of logs and terminals.
func Printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
