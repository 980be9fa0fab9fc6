package processes_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVar) != "" {
		os.Exit(member())
	}
	if processtest.MayLeave() {
		os.Exit(m.Run()) // a failed engine leaves parked goroutines
	}
	goleak.VerifyTestMain(m)
}
