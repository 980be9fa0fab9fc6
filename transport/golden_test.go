package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// What opens a connection, and the keys that are derived from the secrets of a fleet.
func TestPrefacesAndKeysStayAsTheyWere(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for kind := Kind(0); kind < 255; kind++ {
		if kind.valid() {
			fmt.Fprintf(&b, "%v %x\n", kind, appendPreface(nil, kind))
		}
	}
	keys, err := GossipKeys("fleet", []string{"one secret", "another"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "gossip %x\n", keys)
	config, err := FromSecrets("fleet", []string{"one secret"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "tls %q %x\n", config.NextProtos, config.Certificates[0].PrivateKey)
	frozen.Check(t, "testdata/connections.v1", b.Bytes())
}
