// Package client is a node without a replica: it hangs on one replica of its fleet, by one
// connection, and goes to another when that one is gone. Node implements seam.Node and Group
// seam.Group, so the API and the session core run on it as on a replica. It starts no part of the
// engine, has no directory, and takes no part in gossip.
//
// Its id is made of a key that it has drawn at its start (fsm.KeyNode), and it proves the key to
// each replica. When a replica is gone, the very same command goes to the next one, which
// recognises it; what the node was told of tells that replica whether there is a gap.
//
//	node.go   its life: Open, Hello, Close
//	roam.go   Roamer: from one replica to the next
//	group.go  the way to the group: seam.Group
//	ask.go    its questions
//	news.go   what the replica tells, in the order of the log
//	conn.go   one connection
//	operate.go  what an operator asks, and orders
//	outage.go  a client that no replica serves
//	zone.go   which replica is near
package client
