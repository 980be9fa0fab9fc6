package contract_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs more tests at once than there are processors: most of them wait for sockets.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(3 * runtime.GOMAXPROCS(0))); err != nil {
			os.Exit(2)
		}
	}
	know(m)
	goleak.VerifyTestMain(m)
}
