package processes_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVar) != "" {
		os.Exit(member())
	}
	if os.Getenv(parkedVar) != "" {
		os.Exit(m.Run()) // a failed engine leaves parked goroutines
	}
	goleak.VerifyTestMain(m)
}
