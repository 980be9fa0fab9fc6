package a

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestProbe(t *testing.T) {
	var c holdfast.Cluster
	if _, err := c.TryAcquire(context.Background(), "a"); err == nil {
		t.Error("granted")
	}
}
