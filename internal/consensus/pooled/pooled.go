// Package pooled makes the log store's pooled objects fit for testing/synctest. Whoever runs nodes
// in a bubble imports it for this effect; nobody else does.
//
// The log store's table writer (pebble) pools its tasks for the whole process, and each has a
// channel. A channel that was made in a bubble belongs to it, and the runtime ends the process when
// a node of another bubble, or outside of all, gets that task. Here all tasks get one channel, made
// outside of all bubbles. That is right because a task's writer sends one value before its receiver
// takes one: there is always a value to take, and it does not matter whose it is.
package pooled

import (
	"reflect"
	"sync"
	"unsafe"

	_ "github.com/lni/dragonboat/v4" // brings the log store, and is set up before init
)

// writeTaskPool is the table writer's. A version that renames it fails to link.
//
//go:linkname writeTaskPool github.com/cockroachdb/pebble/sstable.writeTaskPool
var writeTaskPool sync.Pool

// tasksMax is more than there can be under way at a time: a sender must not block.
const tasksMax = 1 << 16

// init runs before any node does: nobody uses the pool yet.
func init() {
	once := make(chan bool, tasksMax)
	fresh := writeTaskPool.New
	writeTaskPool.New = func() any {
		task := fresh()
		if c := channel(task); c != nil {
			*c = once
		}
		return task
	}
}

// channel is where a task has its channel, nil if the task is not what it was in the version that
// this is for.
func channel(task any) *chan bool {
	v := reflect.ValueOf(task)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	f := v.Elem().FieldByName("compressionDone")
	if !f.IsValid() || f.Type() != reflect.TypeFor[chan bool]() {
		return nil
	}
	return (*chan bool)(unsafe.Pointer(f.UnsafeAddr()))
}
