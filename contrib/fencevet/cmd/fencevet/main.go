// Command fencevet runs the analyser as a tool of go vet:
//
//	go build -o fencevet github.com/holdfast-go/holdfast/contrib/fencevet/cmd/fencevet
//	go vet -vettool=./fencevet ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/holdfast-go/holdfast/contrib/fencevet"
)

func main() { unitchecker.Main(fencevet.Analyzer()) }
