//go:build unix

package fencetest

import (
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"   // and the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.uber.org/goleak"
)

// TestMain makes the test binary a writer, which the tests kill, if its environment says so.
func TestMain(m *testing.M) {
	if os.Getenv(writerEnv) != "" {
		fmt.Fprintln(os.Stderr, writeForEver())
		os.Exit(1)
	}
	if err := mysql.SetLogger(log.New(io.Discard, "", 0)); err != nil { // it tells of every server that was killed
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
