// Package store is a replica's data as the Raft engine sees it: a file system that parks its caller
// when it fails, and a log that needs one fsync for an entry. It knows neither the group nor the
// wire: it calls Config.Fail.
//
// disk.go, file.go and sync_linux.go are the file system, sstable.go checks the log's tables, and
// stamp.go prepares a directory for a start. link.go is the engine's log store, and logstore.go
// wraps it; position.go and highwatermark.go note how far the log is, and audit.go reads it at a
// start.
package store
