// Package tuslock locks the uploads of tusd (github.com/tus/tusd/v2) with Holdfast locks, so that
// an upload may be resumed at any process of a fleet whose processes share one store. The request
// that has the lock of an upload is asked to give it up as soon as another one wants it: a client
// whose connection broke resumes elsewhere without waiting for a time-out.
//
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	tuslock.New(cluster, "uploads/").UseIn(composer)
//
// A process that has lost its lease and does not know it yet can still write to the store.
package tuslock
