// Package engine contains the Raft engine (dragonboat), which answers trouble with a panic in a
// goroutine of its own, and has one logger for the whole process. It has Guard for each call of the
// engine, Park for a goroutine that must not go on, the engine's logger (logger.go), which fails a
// group instead of the process, and the replica of a goroutine (attribute.go). It imports package
// preinit, so each importer of the engine does.
package engine
