// Package node is this process's place in its fleet: the data directory, the port and gossip, the
// group that the node founds or joins, its replica there, the changes that a raft leader makes to the
// membership, and the end. It knows nothing of locks or of callers: the API stands on it
// through package seam, gives it a Listener, and proposes commands through Node.Proposer.
//
// A node goes through its stages once (stages.go moves it from one to the next):
//
//	opening ---> running ---> leaving ---> closing ---> done ---> stopping ---> gone
//	   |            |                         ^
//	   |            +---- Close, a failure ---+
//	   +---- Open fails ----------------------+
//
// The state of the node towards its group changes meanwhile, and its directory records it (life.go
// has the reason of each arrow):
//
//	       Welcome, or it has formed the group itself
//	free --------------------------------------------> member ---- Leave ----> left
//	  ^                                                 | | ^
//	  +---- its group, which nobody else has joined, ---+ | +--- caught up, Hello ----------- asking
//	        yields                                        |                                     ^
//	                                                      +--- removed ---> removed --- dropped -+
//
// # Contract
//
// The API calls New once, Open once, and then anything from any goroutine. After an error of Open
// nothing of the node is left, and the API calls nothing else. Close may be called at any time
// after Open; it ends the leases first, and when it returns no goroutine, descriptor or port of the
// node is left, and no upcall follows. Three things outlive it: a call of Config.TokenFloor that
// does not return, the files of an engine that has failed, and a write of peers.json to a disk that
// hangs.
//
// The node calls the Listener: Identified first, from Open; LeaderChanged and Expired from the
// goroutines of the replica; EndLeases, Stopping and Stopped last, in this order, each once
// (EndLeases twice after Leave). No method of the Listener may call Close or Leave.
//
// Errors are those of the parts (internal/consensus, internal/proposer, internal/datadir,
// transport) and the values of errors.go; the API translates them. Stopped returns the error that
// has ended the node, untranslated. Calls that wait return a seam.UnreachedError when their context
// ends.
//
// # Files
//
//	node.go      Config, Node: what Open takes from the system
//	stages.go    the stages, and the goroutines that end with them
//	run.go       the way into a group, and from one to the next
//	founder.go   forms or joins a group, and keeps the identity
//	life.go      the states of the node towards its group, and how they change
//	announce.go  tells the group that the node asks to join
//	rivals.go    other groups of the name, and what the node waits for
//	floor.go     Config.TokenFloor, and the raising of tokens
//	level.go     the feature level of the group
//	observer.go  what the local replica has applied, to the organs and the Proposer
//	pilot.go     what a raft leader does for the membership: internal/autopilot decides
//	quorum.go    whether the group has a raft leader
//	ill.go       whether the node is ill, and a raft leader that commits nothing
//	place.go     whether the node has its place, and what gossip says of it
//	replicas.go  what the node knows of the other replicas
//	drift.go     nodes whose configuration differs
//	transfer.go  another voter becomes raft leader by an operator's order
//	remove.go    a dead node is removed by an operator's order
//	disk.go      what the node knows of its directory while it has no replica
//	known.go     where the other nodes were last, on disk
//	probe.go     which process is at an address
//	answers.go   which processes have answered a raft leader that asks for heirs
//	reach.go     whether newcomers are at the addresses that they advertise
//	clients.go   clients of the replica: internal/serve
//	asclient.go  the node as a client, while it has no replica: internal/client
//	fit.go       a client whose disk does not bear the replica that it is given
//	backup.go    writes the state of the group
//	restore.go   founds a group from a backup
//	query.go     what the API asks
//	close.go     the end: Close, a failure, Leave
package node
