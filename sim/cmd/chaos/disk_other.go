//go:build unix && !linux

package main

import "errors"

func (f *fleet) smallDisks(int) (map[int]bool, func() error, error) {
	return nil, func() error { return nil }, errors.New("full disk: small disks need Linux")
}
