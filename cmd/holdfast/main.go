// Command holdfast is for whoever operates a fleet: it asks the fleet who holds what and why, runs
// commands under a lock, and does what only an operator may do. docs/cli.md has all of it.
//
//	export HOLDFAST_JOIN=10.0.0.1:7643 HOLDFAST_SECRETS=… HOLDFAST_CLUSTER=orders
//	holdfast why import
//	holdfast run import -- ./import.sh
package main

import (
	"context"
	"os"
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}
