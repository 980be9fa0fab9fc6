// Command fencevet runs the analyser as a tool of go vet:
//
//	go install github.com/holdfast-go/holdfast/contrib/fencevet/cmd/fencevet@main
//	go vet -vettool=$(go env GOPATH)/bin/fencevet ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/holdfast-go/holdfast/contrib/fencevet"
)

func main() { unitchecker.Main(fencevet.Analyzer()) }
