// Package pooled makes the log store's pooled objects fit for testing/synctest. Simulations that
// run nodes in a bubble import it for this effect; the product does not.
//
// The log store's table writer (pebble) pools its tasks for the whole process, each with a channel.
// A channel made in a bubble belongs to it, and the runtime ends the process when a node of another
// bubble, or of none, uses that task. Here all tasks share one channel, made outside of all
// bubbles. A task's writer sends one value before its receiver takes one, so there is always a
// value to take, and it does not matter which.
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

// tasksMax is more tasks than can be under way at a time: a sender must not block.
const tasksMax = 1 << 16

// init runs before any node uses the pool.
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

// channel is where a task has its channel, nil if this version of pebble has it elsewhere.
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
