package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	guardName      = "guard-of-a-group"
	guardReady     = "ready"
	guardDismissed = "dismissed"
)

// guardCommand is the guard of a process group, which run and elect start. It leads the group, and
// ends it if its standard input ends before the word is said that it may go.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardName + " GRACE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			grace, err := time.ParseDuration(args[0])
			if err != nil {
				return err
			}
			heedNoSignal()
			fmt.Print(guardReady)
			if word, _ := io.ReadAll(os.Stdin); !strings.HasSuffix(string(word), guardDismissed) {
				endOwnGroup(grace)
			}
			return nil
		},
	}
}
