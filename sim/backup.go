package sim

import "github.com/lni/vfs"

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

func (n *Node) copy(from *vfs.MemFS) *vfs.MemFS {
	n.s.t.Helper()
	to := vfs.NewStrictMem()
	if _, err := vfs.Clone(from, to, "/data", "/data"); err != nil {
		n.s.t.Fatalf("copying the disk of node %d: %v", n.i, err)
	}
	syncAll(to, "/")
	return to
}
