package main

import (
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestTheLockTableGrantsInOrder(t *testing.T) {
	t.Parallel()
	table := newLockTable()
	do := func(command string) bool { return table.Apply(&raft.Log{Data: []byte(command)}).(bool) }
	second := table.want("second lock")
	if !do("a first lock") || do("a second lock") || do("a third lock") || !do("a third other") {
		t.Error("a lock went to another than the first that asked")
	}
	image, err := table.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	do("r first lock")
	select {
	case <-second:
	default:
		t.Error("the next waiter did not learn of its grant")
	}
	again := newLockTable()
	if err := again.Restore(io.NopCloser(strings.NewReader(string(image.(tableImage))))); err != nil {
		t.Fatal(err)
	}
	if len(again.queues["lock"]) != 3 || again.queues["lock"][0] != "first" {
		t.Errorf("the copy has %v", again.queues)
	}
}
