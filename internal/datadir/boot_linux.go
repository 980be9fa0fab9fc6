package datadir

import (
	"os"
	"strings"
)

// bootID is the kernel's random id of this boot, or "". Containers of one machine share their
// kernel and its locks.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
