package autopilot

import (
	"cmp"
	"strings"
)

// domains counts replicas by failure domain: by zone, and by host where a node's domain is
// "zone/host".
type domains map[string]int

// add counts a replica of this domain.
func (d domains) add(domain string) {
	zone, _, hasHost := strings.Cut(domain, "/")
	d[zone]++
	if hasHost {
		d[domain]++ // no zone has a slash in it
	}
}

// compare orders two domains by the replicas that their zones have, then by those that their hosts
// have. It is 0 for two nodes without a domain.
func (d domains) compare(a, b string) int {
	zoneA, hostA := d.replicas(a)
	zoneB, hostB := d.replicas(b)
	return cmp.Or(cmp.Compare(zoneA, zoneB), cmp.Compare(hostA, hostB))
}

// has reports whether a domain's zone, or its host, is named and has a replica.
func (d domains) has(domain string) bool {
	zone, host := d.replicas(domain)
	return host > 0 || zone > 0 && domain != "" && domain[0] != '/'
}

// replicas counts the replicas of a domain's zone, and of its host, 0 if it has none.
func (d domains) replicas(domain string) (zone, host int) {
	name, _, hasHost := strings.Cut(domain, "/")
	if hasHost {
		host = d[domain]
	}
	return d[name], host
}
