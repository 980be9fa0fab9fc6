package sim

import (
	"io"

	"github.com/lni/vfs"
)

// Backup is a copy of a node's disk. It can be put back any number of times.
type Backup struct{ mem *vfs.MemFS }

// Backup copies the node's disk as it is at this moment, whether anything runs on it or not: what a
// snapshot of a volume is.
func (n *Node) Backup() *Backup {
	n.s.t.Helper()
	d := n.storage()
	d.writing.Lock()
	defer d.writing.Unlock()
	n.s.note("node %d: its disk is copied", n.i)
	return &Backup{n.copy(d.mem)}
}

// Backup copies the disks of all nodes as they are at one moment. To take the fleet back to it, end
// all nodes, Restore the copy of each, and open them again.
func (s *Sim) Backup() (all []*Backup) {
	s.t.Helper()
	var disks []*disk
	for _, n := range s.nodes {
		d := n.storage()
		d.writing.Lock()
		defer d.writing.Unlock()
		disks = append(disks, d)
	}
	s.note("all disks are copied")
	for i, n := range s.nodes {
		all = append(all, &Backup{n.copy(disks[i].mem)})
	}
	return all
}

// Restore gives a node on which nothing runs a disk with what was copied, from this node or
// another: what was written since is gone.
func (n *Node) Restore(b *Backup) {
	n.s.t.Helper()
	mem := n.copy(b.mem)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.s.fault("node %d: an older copy of its disk is put back", n.i)
	n.disk = newDisk(n)
	n.disk.FS, n.disk.mem = mem, mem
}

// copy copies a disk, synced or not.
func (n *Node) copy(from *vfs.MemFS) *vfs.MemFS {
	n.s.t.Helper()
	to := vfs.NewStrictMem()
	if err := copyAll(from, to, "/"); err != nil {
		n.s.t.Fatalf("copying the disk of node %d: %v", n.i, err)
	}
	syncAll(to, "/")
	return to
}

// copyAll copies everything below dir.
func copyAll(from, to vfs.FS, dir string) error {
	names, err := from.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := from.PathJoin(dir, name)
		info, err := from.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			if err = to.MkdirAll(path, 0o755); err == nil {
				err = copyAll(from, to, path)
			}
		default:
			err = copyFile(from, to, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to vfs.FS, path string) error {
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
