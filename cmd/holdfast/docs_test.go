package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

const docsHead = `# The command holdfast

<!-- Written by the test of cmd/holdfast from the command itself: UPDATE_GOLDEN=1 go test -run Documented ./... -->

For whoever operates a fleet: it asks the fleet who holds what and why, runs commands under a lock, and
does what only an operator may do.

    cd cmd/holdfast && go install .        # in a clone: it is a module of its own

It joins the fleet as a [client](operations.md#clients): without a replica, a vote or a port of its own,
over one TCP connection to any node with a replica. One forwarded port is enough.

    export HOLDFAST_JOIN=10.0.0.1:7643,10.0.0.2:7643   # or --join
    export HOLDFAST_SECRETS=…                          # or --secret-file, or --ca, --cert, --key
    export HOLDFAST_CLUSTER=orders                     # or --cluster
    holdfast why import

Data goes to standard output, all else to standard error. ` + "`-o json`" + ` prints one value, an array for a list, and
` + "`-o jsonl`" + ` one object a line; a watch has one object a line in both. The names of JSON are stable, and those
of [httpstatus](monitoring.md) where the values are the same. Points in time are RFC 3339 in UTC, and
durations seconds. Tokens are numbers below 2^53. Colours are for terminals, and not with NO_COLOR. Before
anything is destroyed holdfast asks; ` + "`--yes`" + ` is the answer where nobody can be asked.

| code | meaning |
|---|---|
| 0 | done |
| 1 | not done, as the text says; a step of doctor has failed |
| 2 | the arguments are wrong, or nobody could be asked |
| 69 | the fleet did not answer within --timeout: no node, other secrets, or no majority |
| 75 | the lock was not got or was lost; a limit is reached. It may work later |
| 126, 127 | the command of run or elect cannot be run, is not found |
| 128+N | ended by signal N; watch and ui end with 0 |

What a node with a replica knows alone, as the voters that it hears, is on its [page](monitoring.md).
`

// Whatever the command can do is in docs/cli.md, in the words of its help.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	a := &app{in: os.Stdin, out: io.Discard, err: io.Discard}
	root := a.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var out strings.Builder
	out.WriteString(docsHead)
	out.WriteString("\n## Flags of all commands\n\n```text\n" + root.PersistentFlags().FlagUsages() + "```\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&out, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && !cmd.Hidden {
				document(&out, cmd)
			}
		}
	}
	out.WriteString("\n## Other commands\n")
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden && cmd.Name() != "help" {
			document(&out, cmd)
		}
	}
	frozen.Golden(t, "../../docs/cli.md", []byte(out.String()))
}

func document(out *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(out, "\n### %s\n\n%s.\n\n```text\n", cmd.Name(), cmd.Short)
	for _, line := range append(cmd.Commands(), cmd) {
		if line.Runnable() && (line == cmd) == (len(cmd.Commands()) == 0) { // one that has commands is none itself
			fmt.Fprintln(out, line.UseLine())
		}
	}
	if cmd.Long != "" && cmd.Name() != "completion" {
		fmt.Fprintf(out, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	if flags := cmd.LocalFlags(); flags.HasAvailableFlags() && cmd.Name() != "completion" {
		fmt.Fprintf(out, "\n%s", flags.FlagUsages())
	}
	if cmd.Example != "" {
		fmt.Fprintf(out, "\n%s\n", cmd.Example)
	}
	out.WriteString("```\n")
}
