// Package clientgo has tests alone. They show what becomes of client-go's leader election when its
// record is kept in a lock of Holdfast: two leaders at once where a lost lock is granted at once,
// and never two under a lock delay of client-go's LeaseDuration. docs/integrations.md says what to
// use instead.
package clientgo
