package datadir

import "golang.org/x/sys/unix"

// bootID is the kernel's random id of this boot, or "".
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
