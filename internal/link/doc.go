// Package link is what a client and the replica that serves it say to each other, over one
// connection of transport.KindClient. It knows bytes alone: internal/client and internal/serve run
// it.
//
//	replica                            client
//	Challenge (a nonce)         --->
//	                            <---   Open: who it is, signed with its key; what it has
//	Welcome, or Refuse          --->
//	                            <---   Propose, Ask, List, Next, Ready, Cancel, Watch, each with the number of a call
//	                            <---   Unwatch, with the number of a watch
//	Reply, to each but Cancel   --->
//	Events, Gap, Pong, Ages     --->
//	                            <---   Ping
//
// What is new in a version is said to those alone that know it: a frame of unknown kind ends the
// connection, and so does a field more. A Ping may say more (AskAges), as its body was never read.
//
// A frame is its length (4 bytes, big-endian, of what follows), its kind, the number of its call
// (8 bytes, 0 for none) and its body. Decoding is total: what is malformed is an error, allocates
// no more than it has, and ends that connection alone.
//
// The client proves the key that its node's id is made of (fsm.KeyNode). It signs the nonce, the
// process that has sent it, the cluster's name, and what TLS has agreed on for this connection: so a
// member of the fleet that passes a challenge on gets nothing by it.
package link
