// Package river has tests alone: riverqueue/river needs no adapter. Its clients elect the one that
// inserts periodic jobs among themselves, and the work of a job that may not overlap runs in
// Cluster.Do, with its token in the transaction of its writes.
package river
