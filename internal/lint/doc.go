// Package lint holds the rules that this repository keeps about itself, as tests. Each rule has
// its reason beside it, which a failure prints; a developer that finds the reason wrong changes the rule.
//
//   - floors_test.go: who may import whom
//   - source_test.go: how source files look
//   - package_test.go: what every package has
//   - docs_test.go, programs_test.go, tables_test.go, calls_test.go: links, programs, tables and calls in documents
//   - sleeps_test.go: what tests wait for
package lint
