package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/term"
)

// sure asks before something is destroyed. Without a terminal --yes is the only answer.
func (a *app) sure(question string) error {
	if a.yes {
		return nil
	}
	question = clean(question)
	if !term.IsTerminal(int(a.in.Fd())) {
		return &exit{codeUsage, errors.New("not done: " + question), "Nobody can be asked, as standard input is no terminal: say --yes if you are sure."}
	}
	fmt.Fprintf(a.err, "%s Go on? [y/N] ", question)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &exit{codeFailed, errors.New("not done"), ""}
}
