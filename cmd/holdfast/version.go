package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what this program is.
type version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func thisVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: a.does(func(context.Context, []string) error {
			v := thisVersion()
			return a.one(v, func(w io.Writer) { fmt.Fprintf(w, "holdfast %s, %s, %s\n", v.Version, v.Go, v.System) })
		}),
	}
}
