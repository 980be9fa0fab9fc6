package datadir

import "golang.org/x/sys/unix"

// bootID is a random number that the kernel has drawn when it started, "" if it does not tell.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
