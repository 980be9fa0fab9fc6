package datadir

import (
	"os"
	"strings"
)

// bootID is a random number that the kernel has drawn when it started, "" if it does not tell.
// Containers of one machine share their kernel and its locks.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
