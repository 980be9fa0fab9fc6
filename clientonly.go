//go:build holdfast_client

package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// newNode refuses: a program of the build tag holdfast_client links no Raft engine, and has clients
// alone. It has no Recover either.
func (c *Cluster) newNode(simenv.Env) (seam.Node, error) {
	return nil, invalid("Config.ClientOnly", "is false, and this program was built with the tag holdfast_client: "+
		"it has no replica; set ClientOnly, or build without the tag")
}
