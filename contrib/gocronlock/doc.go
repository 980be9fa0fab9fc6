// Package gocronlock is what go-co-op/gocron asks of a fleet: a Locker, under which a job runs on
// one of several schedulers at each tick, and an Elector, which lets one scheduler alone run jobs.
//
// gocron asks a Locker for a job by its name and does not say for which tick. Two schedulers whose
// clocks differ by more than the job takes then run it one after the other, each under the lock. So
// the Locker of this package keeps the lock taken after the job has ended, for half of the time
// between two ticks.
//
// Neither can tell a job that runs that the lock or the leadership is lost, and neither hands the
// fencing token to it: gocron has no place for that. A job that must not overlap another run of
// itself takes its lock inside of its function, with holdfast.Cluster.Do, which gives it a context
// that ends with the lock, and the token.
package gocronlock
