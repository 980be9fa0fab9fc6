package b

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestProbe(t *testing.T) {
	var c holdfast.Cluster
	if _, err := c.TryAcquire(context.Background(), "a"); err == nil { // want "the lease is ignored"
		t.Error("granted")
	}
	c.TryAcquire(context.Background(), "a") //fencevet:ok the answer does not matter
}
