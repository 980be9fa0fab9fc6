// Package contract has tests alone: what a caller of package holdfast is promised, on a node alone
// and on simulated fleets. They use the public API and nothing else of the root, and start no
// process.
package contract
