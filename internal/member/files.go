package member

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// entryFileMax bounds the bytes read from the file of a file+ entry.
const entryFileMax = 1 << 20

// Files reads the files of file+ entries. The zero value is ready.
//
// A read that the kernel does not answer, of a mount that hangs or of a pipe, heeds no context: each has a
// goroutine of its own, which ends with the read. Of a file there is one at a time, for which later calls wait.
type Files struct {
	mu    sync.Mutex
	reads map[string]*reading // under way, by path
}

// reading is a read that is under way.
type reading struct {
	done chan struct{} // closed when text and err are set
	text []byte
	err  error
}

func (f *Files) read(ctx context.Context, path string) ([]byte, error) {
	one := f.begin(path)
	select {
	case <-one.done:
		return one.text, one.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading %s hangs, with the disk or the mount that it is on: %w", path, ctx.Err())
	}
}

// begin begins a read, unless one is under way.
func (f *Files) begin(path string) *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, under := f.reads[path]; under {
		return one
	}
	if f.reads == nil {
		f.reads = make(map[string]*reading)
	}
	one := &reading{done: make(chan struct{})}
	f.reads[path] = one
	go func() {
		one.text, one.err = readFile(path)
		f.mu.Lock()
		delete(f.reads, path)
		f.mu.Unlock()
		close(one.done)
	}()
	return one
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, entryFileMax))
}
