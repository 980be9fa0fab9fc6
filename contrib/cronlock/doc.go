// Package cronlock runs the jobs of robfig/cron once per tick over a whole fleet. Every process has
// the same schedule; the run of a tick is a key of holdfast.Cluster.Once, made of the job's name
// and the instant that the schedule names. So it does not matter how far the processes' clocks are
// apart, or how late one of them wakes up, as long as the key is remembered: a day, if WithKeepFor
// does not say otherwise.
package cronlock
