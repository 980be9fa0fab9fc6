//go:build unix && !linux

package main

// adopt leaves the orphans of a command to the first process of the system.
func adopt() {}
