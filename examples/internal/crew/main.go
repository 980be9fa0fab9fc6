package crew

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of an example: serve in a process that Start has started, show in the
// parent. An example registers flags of its own before. Main does not return after an error.
func Main(example string, serve func(ctx context.Context, name, dir string) error, show func(context.Context) error) {
	name := flag.String("service", "", "run one process of the service under this name (used by the program itself)")
	dir := flag.String("dir", "", "directory of the fleet")
	flag.Parse()
	if *name == "" {
		Run(example, show)
		return
	}
	Run(example, func(ctx context.Context) error { return serve(ctx, *name, *dir) })
}

// Run runs f until it returns or a signal asks for the end, and exits with 1 after an error.
func Run(example string, f func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", example, err)
		stop()
		os.Exit(1)
	}
}

// Show tells a story with a crew in a temporary directory, and ends its processes.
func Show(example string, tell func(*Crew) error, flags ...string) error {
	dir, err := os.MkdirTemp("", "holdfast-"+example+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := New(dir, flags...)
	defer c.StopAll()
	return tell(c)
}

// TestMain makes the test binary of an example a process of the service when Start starts it as one.
func TestMain(m interface{ Run() int }, main func()) {
	if len(os.Args) > 1 && os.Args[1] == "-service" {
		main()
		return
	}
	os.Exit(m.Run())
}
