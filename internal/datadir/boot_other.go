//go:build unix && !linux && !darwin

package datadir

// bootID is unknown.
func bootID() string { return "" }
