package pooled

import (
	"testing"
	"testing/synctest"
)

func TestATaskOfABubbleCanBeUsedOutsideOfIt(t *testing.T) {
	t.Parallel()
	tasks := make(chan any, 1)
	synctest.Test(t, func(*testing.T) { tasks <- writeTaskPool.New() })
	c := channel(<-tasks)
	if c == nil {
		t.Fatal("a task has no channel where it was")
	}
	*c <- true // ends the process if the channel belongs to the bubble
	<-*c
}
