package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
	"github.com/spf13/cobra"
)

// finding is what the doctor has found out.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning, failed
	Detail string `json:"detail"`
	Advice string `json:"advice"` // "": nothing is to be done
}

func fine(check, format string, args ...any) finding {
	return finding{check, "ok", fmt.Sprintf(format, args...), ""}
}

func warning(check, detail, advice string) finding { return finding{check, "warning", detail, advice} }

func failed(check, detail, advice string) finding { return finding{check, "failed", detail, advice} }

const doctorLong = `doctor goes from this machine to the fleet, step by step, and says of each step what is wrong and what to
do:

  config  what the flags and the environment name can be read, and is safe
  names   the join entries lead to addresses
  tcp     the addresses can be connected to
  seal    secrets or certificates, and the name of the fleet, are those of each node that answers
  fleet   a client is served, and how long a linearizable read takes
  members no replica is ill, and the nodes have one version and one configuration
  clock   the clock of this machine is kept in time, and did not step meanwhile

With --data-dir, on the machine of a node, also what a client does not need:

  udp     the UDP ports of the nodes do not refuse. One that drops all looks the same as an open one, and
          a node logs that it refused the packet
  fsync   how long the disk takes for what a voter waits for

The exit code is 1 if a step has failed.`

func (a *app) doctorCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "doctor", GroupID: groupAsk, Args: cobra.NoArgs, Long: doctorLong,
		Short: "Find out why a machine does not reach the fleet",
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of a node on this machine: its disk is measured, by a file that is deleted again")
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		found := a.examine(ctx, dir)
		if err := a.printFindings(found); err != nil {
			return err
		}
		if slices.ContainsFunc(found, func(f finding) bool { return f.State == "failed" }) {
			return &exit{code: codeFailed}
		}
		return nil
	})
	return cmd
}

func (a *app) printFindings(found []finding) error {
	if a.format != "table" {
		return list(a, valuesOf(found), nil)
	}
	rows := [][]string{{"CHECK", "STATE", "WHAT"}}
	for _, f := range found {
		rows = append(rows, []string{f.Check, f.State, f.Detail})
		if f.Advice != "" {
			rows = append(rows, []string{"", "", "→ " + f.Advice})
		}
	}
	return a.table(rows)
}

// examine goes from what is on this machine to the fleet, as far as it gets.
func (a *app) examine(ctx context.Context, dir string) []finding {
	wall, mono := time.Now().Round(0), time.Now()
	found := a.examineConfig(mono)
	addrs, names := a.examineNames(ctx)
	found = append(found, names...)
	reached, ports := a.examinePorts(ctx, addrs)
	found = append(found, ports...)
	if len(reached) > 0 {
		found = append(append(found, a.examineSeal(ctx, reached)...), a.examineFleet(ctx)...)
	}
	if dir != "" {
		for _, addr := range reached {
			found = append(found, examineUDP(addr))
		}
		found = append(found, examineDisk(dir))
	}
	step := time.Now().Round(0).Sub(wall) - time.Since(mono)
	return append(found, examineClock(step))
}

// examineFleet joins as any command does, and asks.
func (a *app) examineFleet(ctx context.Context) []finding {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := a.join(ctx)
	if err != nil {
		return []finding{failed("fleet", firstLine(err), "If the steps before are well, and doctor says the same elsewhere, a majority is missing: start the voters that `holdfast members` names. See docs/operations.md.")}
	}
	defer c.Close()
	joined := time.Since(began)
	began = time.Now()
	if _, err := c.InspectOnce(ctx, "holdfast doctor"); err != nil {
		return []finding{failed("fleet", firstLine(err), "The replica answers, and its group does not: it hears no raft leader, or is ill. The log of its node, and of the others, says which. See docs/operations.md.")}
	}
	read := time.Since(began)
	detail := fmt.Sprintf("group %s serves: joined in %v, a linearizable read took %v", c.Status().ClusterID, joined.Round(time.Millisecond), read.Round(100*time.Microsecond))
	if read > readSlow {
		return []finding{warning("fleet", detail, "The network or the disks of the voters are slow: run doctor --data-dir on their machines."), examineMembers(c.Status(), c.Members())}
	}
	return []finding{{"fleet", "ok", detail, ""}, examineMembers(c.Status(), c.Members())}
}

// examineMembers looks for nodes that are ill, and for what differs between nodes and should not.
func examineMembers(st holdfast.Status, seen []holdfast.Member) finding {
	var ill []string
	versions := make(map[string]bool)
	for _, r := range slices.Concat(st.Voters, st.Standbys) {
		if r.Ill != "" {
			ill = append(ill, fmt.Sprintf("%s (%s): %s", cmp.Or(r.Name, "a node"), r.ID, r.Ill))
		}
	}
	for _, m := range seen {
		if !m.Local && m.State == holdfast.StateAlive {
			versions[m.Version] = true
		}
	}
	switch {
	case len(ill) > 0:
		return warning("members", "replicas are ill: "+strings.Join(ill, "; "), "See the disk and the network of those machines, and the logs of their nodes.")
	case st.Drift != "":
		return warning("members", "nodes are configured otherwise than the one that answers: "+st.Drift, "Give all nodes one configuration: what the fleet does changes with its raft leader.")
	case len(versions) > 1:
		return warning("members", "nodes run several versions: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "), "That is as it should be while the fleet is updated. Else update the rest.")
	}
	return finding{"members", "ok", fmt.Sprintf("%s and %s, none is ill, and their configurations agree",
		view.Plural(len(st.Voters), "voter"), view.Plural(len(st.Standbys), "standby")), ""}
}

const readSlow = 250 * time.Millisecond

func firstLine(err error) string {
	var e *exit
	if errors.As(err, &e) && e.err != nil {
		err = e.err
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "holdfast: "), "\n")
	return line
}
