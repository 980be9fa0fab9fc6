package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const smallDisk = "size=128m"

// smallDisks puts the directories of the first n slots on small disks of their own. An error says
// why that cannot be; unmount undoes what was done.
func (f *fleet) smallDisks(n int) (disks map[int]bool, unmount func() error, err error) {
	disks = make(map[int]bool)
	unmount = func() (err error) {
		for i := range disks {
			err = errors.Join(err, unix.Unmount(f.slots[i].data, unix.MNT_DETACH))
		}
		return err
	}
	for i := range n {
		if err := unix.Mount("tmpfs", f.slots[i].data, "tmpfs", 0, smallDisk); err != nil {
			return disks, unmount, fmt.Errorf("full disk: a small disk cannot be mounted: %w", err)
		}
		disks[i] = true
	}
	return disks, unmount, nil
}
