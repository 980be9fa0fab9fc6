// Package asynq has an example and its test alone: hibiken/asynq needs no adapter. Its Scheduler
// enqueues once per process, so it runs on the leader of an election.
package asynq
