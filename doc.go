// Package holdfast gives a fleet of processes distributed locks with leases and fencing tokens,
// without a lock server: the processes find each other by gossip and keep one replicated state
// machine among themselves by Raft. Acquiring and releasing a lock each wait for a majority of the
// nodes that vote; checking a lease needs no network.
//
// # What a lock cannot promise
//
// No lock can stop a holder that does not know that it is no longer the holder: a process that was
// stopped between its look at the lease and its write, or a write that was long on its way. Two
// processes can both believe, for a moment, that they hold a lock. So the resource must protect
// itself: give it the fencing token with every write, and let it refuse a token lower than the
// highest it has seen. Package fence has guards that do that.
//
// # What it does promise
//
// The grants of a lock form one order, that of the Raft log; in this order there is at most one
// exclusive holder at a time.
//
// Each grant has a fencing token. The tokens of a lock rise strictly, for ever: over fail-over,
// restart of some or all, loss of all data, and restore of all data from a backup, if all nodes
// were stopped. After a start, tokens go on from the median of the voters' wall clocks, or from the
// lower of two. If clocks were set back as well, set Config.TokenFloor.
//
// A lock is not granted to another before the lease of its holder has ended by the holder's own
// clock, as long as the rates of the nodes' clocks differ by no more than Config.MaxClockDrift.
// Wall clocks may be wrong and may jump. Lease.Valid is right at the first look after the process
// was stopped or the machine was suspended, but not where a hypervisor stopped all clocks of the
// machine: there it is right from the first message of another replica on (ErrClockStopped).
// Lease.Done closes at the end of the validity, whether or not the network answers.
//
// A grant that was acknowledged is not forgotten while a majority of the voters' disks survives.
//
// A data directory that was put back from an earlier copy counts as a disk that did not survive. It
// is worse than a lost one: its node might vote although it has forgotten what it acknowledged. The
// node ends itself as soon as another node tells it so. Nobody finds out if the copy was made while
// the directory was in use and all nodes that know what it lacks are down. So delete a lost
// directory, do not restore it. Two processes that live at once on copies of one voter's directory
// have two votes. Where it is the only voter, or where each of the two is in a part of the network
// with half of the others, both parts go on.
//
// A lease that ended never comes back. Waiters are served first in, first out, over all nodes.
//
// A dead holder's lock is granted again within its TTL and two seconds, fail-over included, at the
// default timing; at once if its process starts again on the same data directory, on the same
// machine and before that boots again: only then is it proved that the former process is dead.
//
// Nothing else takes a lock away before the end of its TTL: not the silence of its node, nor its
// removal from the group, nor a copy of its disk that is opened elsewhere. An operator can, by
// ForceRelease and RevokeNode. A node that the group has replaced, because it heard nothing of it,
// comes back by itself as the same node: it keeps what it still holds, and its calls go on.
//
// # What it needs
//
// A majority of the voters, for everything but Lease.Valid and the end of leases. Without it calls
// wait, or return ErrNoQuorum at their deadline, and leases end at the end of their validity.
// Service resumes by itself. Three nodes survive the loss of any one; of two nodes one votes, and
// they survive the loss of the other.
//
// Nodes that share a fleet trust each other: gossip and Raft are sealed against strangers, not
// against a member that lies.
//
// The library lives in the application's process: it shares its processor, its memory and its end.
//
// # How a process ends
//
// A process that is told to stop, and does not come back on its data directory, leaves: its locks
// are free at once, another node votes in its place, and any number may leave at one moment.
//
//	stop, done := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
//	defer done()
//	<-stop.Done()
//	bounded, cancel := context.WithTimeout(context.Background(), 30*time.Second)
//	defer cancel()
//	err := c.Leave(bounded)
//
// A process that comes back on its directory calls [Cluster.Close] instead. Close of a process
// without a directory hands its vote over, too, but waits five seconds at most. Where another voter
// died a moment ago that may be too short; Leave waits longer.
package holdfast

// Where to begin reading this directory: cluster.go opens a node; lock.go has the road of one call,
// lease.go what the caller gets by it, and keeper.go what keeps it alive; errors.go has what a call
// may return. election.go, once.go, every.go, value.go, watch.go, query.go, operate.go and locker.go are further
// calls; options.go, events.go and status.go what surrounds them. replica.go has all that links the Raft engine, and
// clientonly.go is in its place in a program of clients. What all of them promise is tested in internal/contract.
