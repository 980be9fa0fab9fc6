package autopilot

import (
	"cmp"
	"maps"
	"strings"
)

// domains counts voters by failure domain: by zone, and by host where a node's domain is
// "zone/host".
type domains map[string]int

// add counts a voter of this domain.
func (d domains) add(domain string) {
	zone, _, hasHost := strings.Cut(domain, "/")
	d[zone]++
	if hasHost {
		d[domain]++ // no zone has a slash in it
	}
}

// compare orders two domains by the voters that their zones have, then by those that their hosts
// have. It is 0 for two nodes without a domain.
func (d domains) compare(a, b string) int {
	zoneA, _, hostA := strings.Cut(a, "/")
	zoneB, _, hostB := strings.Cut(b, "/")
	voters := func(domain string, known bool) int {
		if !known {
			return 0
		}
		return d[domain]
	}
	return cmp.Or(
		cmp.Compare(d[zoneA], d[zoneB]),
		cmp.Compare(voters(a, hostA), voters(b, hostB)),
	)
}

func (d domains) clone() domains { return maps.Clone(d) }
