// Package prometheus has no code. Its tests check the alert rules and the dashboard beside it:
// against what a real node exports, with Prometheus' own parser and tools, and with a real server
// that scrapes a real node.
package prometheus
