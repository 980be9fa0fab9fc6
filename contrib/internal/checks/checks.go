// Package checks is what contrib/prometheus and contrib/otel export of guards. It is apart from
// package metrics because a service that guards a resource does not link Raft.
package checks

import "github.com/holdfast-go/holdfast/fence"

// Name, Help and labels of the one metric.
const (
	Name   = "fence_checks"
	Help   = "Checks of tokens by guards: admitted, stale (a higher token was seen before) or failed."
	Guard  = "guard"
	Result = "result"
)

// Results are the values of Result.
func Results() []string { return []string{"admitted", "stale", "failed"} }

// ResultOf is the one of Results that a check ended with.
func ResultOf(c fence.Checked) string {
	switch {
	case c.Err == nil:
		return "admitted"
	case c.Stale():
		return "stale"
	}
	return "failed"
}
