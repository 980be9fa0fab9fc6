//go:build unix

package member

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A file on a mount that hangs is read for ever, as a pipe is to which nobody writes. Nothing ended that: the later
// entries were not tried, and Close of the node waited for it.
func TestAFileThatHangsHoldsNothingUpAndIsReadOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peers")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipe can be made here:", err)
	}
	var files Files
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var first *reading
	for range 3 {
		addrs, err := Resolve(ended, net.DefaultResolver, &files, []string{prefixFile + path, "10.0.0.2:7643"})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path+" hangs") {
			t.Errorf("the error is %v", err)
		}
		if !slices.Equal(addrs, []string{"10.0.0.2:7643"}) {
			t.Errorf("the other entry leads to %v", addrs)
		}
		if one := files.begin(path); first != nil && first != one {
			t.Error("the file is read twice at a time")
		} else {
			first = one
		}
	}
	if err := os.WriteFile(path, []byte("10.0.0.1:7643\n"), 0); err != nil { // to the one that reads
		t.Fatal(err)
	}
	<-first.done
	if string(first.text) != "10.0.0.1:7643\n" || first.err != nil || len(files.reads) > 0 {
		t.Errorf("it read %q, %v", first.text, first.err)
	}
}
