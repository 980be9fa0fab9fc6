package consensus

import (
	"github.com/holdfast-go/holdfast/fsm"
)

// goodGreeting is what node n says first on a connection.
func goodGreeting(n int) greeting {
	node, err := fsm.ParseNode(nodeID(n))
	if err != nil {
		panic(err)
	}
	return greeting{deployment: deployment(testCluster), node: node, incarnation: 1 << RunBits}
}
