package main

import "golang.org/x/sys/unix"

// boot is the machine's clock: the same for all processes, and it goes on while they are stopped.
func boot() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return ts.Nano()
}
