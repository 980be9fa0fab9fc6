package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// markdown prints the figures of an earlier run for docs/benchmarks.md.
func markdown(w io.Writer, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, %s, %d CPUs, load %s, %s.\n\n", r.Began.UTC().Format("2006-01-02 15:04"), r.Go, r.CPUs, r.Load, r.System)
	fmt.Fprintln(w, "| target | wanted | got | |\n|---|---|---|---|")
	for _, t := range r.Targets {
		verdict := "reached"
		if !t.Reached {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %.3g | %s |\n", t.Name, t.Want, t.Got, verdict)
	}
	fmt.Fprintln(w, "\n| section | figure | who | median | lowest | highest |\n|---|---|---|---|---|---|")
	for _, x := range r.Rows {
		low, high := "", ""
		if x.Low != 0 || x.High != 0 {
			low, high = show(x.Low, x.Unit), show(x.High, x.Unit)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", x.Section, x.Name, x.Who, show(x.Value, x.Unit), low, high)
	}
	return nil
}
