//go:build !simexact

package sim

// seedRuntime and lots are for exact replay alone: see sim/exact.
func seedRuntime(uint64) {}

func lots() uint64 { return 0 }
