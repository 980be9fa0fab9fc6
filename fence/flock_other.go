//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package fence

import (
	"errors"
	"fmt"
	"os"
)

// flock is missing on this system: no File can be opened.
func flock(*os.File) (bool, error) { return false, fmt.Errorf("flock: %w", errors.ErrUnsupported) }

func funlock(*os.File) error { return nil }
