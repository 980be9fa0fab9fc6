// Package prometheus exports what a node has counted, as metrics for Prometheus: all of
// holdfast.Status.Metrics, the state of the node and its members, read when they are scraped; and
// how long callers wait and leases are held, which only events tell.
//
// Metrics is a prometheus.Collector. It starts no goroutine and wraps no call. All names begin with
// "holdfast_". No label has the name of a lock, unless Config.Lock says so.
//
// The counter of what guards refuse is in package guard, which does not link Raft.
package prometheus
