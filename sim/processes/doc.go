// Package processes tests what only real processes, sockets, disks and processors show: processes
// that are killed, stopped and started again, copies of their directories, sieges by strangers,
// hosts that are short of processor, memory, descriptors or room, damaged directories, and what is
// left in a process that has used Holdfast. It has no code but tests.
//
// A test belongs here when it starts a process, counts what a process uses (memory, goroutines,
// descriptors, processor time), or breaks real sockets and files. Its bounds are such as a
// machine keeps that is busy with the other tests; its ports are of the system's choice; what it
// starts ends with it. What needs a right or a system that is not there is skipped and says so.
// Links are cut by a relay that stands between the nodes (sim/internal/relay), not by network namespaces:
// it needs no right, it cuts one way or what is large as well, and it runs beside other tests.
// Time limit: 10 minutes (go test -timeout 10m ./sim/processes).
package processes
