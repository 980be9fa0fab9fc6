package main

import "golang.org/x/sys/unix"

// adopt makes the orphans of a command our children, so that we learn of their end: the first
// process of a container may not wait for them, and they would stay in their group.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
